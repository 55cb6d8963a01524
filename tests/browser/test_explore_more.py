"""Explore beyond the answer: the search, the map, what is taken along, and doing it all without a
mouse.
"""

import csv
import io
import json
from pathlib import Path

import httpx
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit
from tests.browser.watching import until

TRAIN = "/?model=llama-3.2-1b&gpu=A100-SXM4-40GB&task=train&workload.sequence_length=2048"


def settled(page: Page) -> None:
    """Wait for the answer and for the map."""
    expect(page.locator(".verdict-line")).to_be_visible()
    expect(page.locator("#map table")).to_have_count(1)


def downloaded(page: Page, panel: str, name: str) -> bytes:
    """Press a button of an export bar and return the file."""
    with page.expect_download() as download:
        page.locator(panel).get_by_role("button", name=name).click()
    return Path(download.value.path()).read_bytes()


def test_the_search_says_how_many_and_why_not_fewer(visit: Visit, base_url: str) -> None:
    """The number and the reasons are those of POST /v1/plans, and a candidate becomes the question
    that fits.
    """
    page = visit(TRAIN.replace("3.2-1b", "3.1-8b")).page
    settled(page)
    page.get_by_role("button", name="Find").click()
    question = {
        "model": "llama-3.1-8b",
        "workload": {"task": "train", "sequence_length": 2048},
        "gpus": ["A100-SXM4-40GB"],
        "objective": "fewest_gpus",
    }
    plan = httpx.post(f"{base_url}/v1/plans", json=question, timeout=120).json()

    expect(page.locator(".plan-count")).to_have_text(f"{plan['num_gpus']} \u00d7 A100-SXM4-40GB")
    reasons = page.locator("#plan table").filter(has_text="Why not fewer").locator("tbody tr")
    assert [one["reason"] for one in plan["rejected"]] == reasons.locator(
        "td:last-child"
    ).all_inner_texts()
    page.get_by_role("button", name="Use").first.click()
    expect(page.locator(".verdict-line")).to_contain_text("Fits")
    needed = plan["candidates"][0]["fit"]["per_gpu"]["device_bytes"]
    expect(page.locator("#components caption")).to_contain_text(f"{needed / 2**30:.1f} GiB")


def test_a_plan_can_be_linked_and_launched(visit: Visit) -> None:
    """The link of a search searches again, and the command of the best plan is there to copy."""
    page = visit(f"{TRAIN}&plan=1&constraints.max_gpus=8").page
    expect(page.locator(".plan-count")).to_be_visible()
    page.get_by_text("Launch the best of them").click()
    command = page.locator("#plan pre").inner_text()
    page.locator("#plan").get_by_role("button", name="Copy").click()

    assert command
    until(page, lambda: page.evaluate("navigator.clipboard.readText()") == command)
    page.locator("#plan").get_by_role("tab", name="command").press("ArrowRight")
    expect(page.locator("#plan").get_by_role("tab").nth(1)).to_be_focused()
    assert page.locator("#plan pre").inner_text() != command


def test_the_map_asks_once_and_a_cell_becomes_the_question(visit: Visit) -> None:
    """All cells come in one call, and a click on one asks it."""
    opened = visit(TRAIN)
    page = opened.page
    settled(page)
    asked = opened.watch.asked("/v1/fit/batch")
    gpus = page.locator("#map tbody th").all_inner_texts()
    batches = page.locator("#map thead th").all_inner_texts()[1:]

    assert len(asked) == 1
    assert len(asked[0]["items"]) == len(gpus) * len(batches)
    plot = page.locator("#map .plot").bounding_box()
    assert plot is not None
    page.locator("#map .plot").click(position={"x": plot["width"] - 30, "y": plot["height"] - 60})
    until(page, lambda: opened.watch.asked("/v1/fit")[-1]["gpu"] == gpus[-1])
    assert opened.watch.asked("/v1/fit")[-1]["workload"]["micro_batch_size"] == int(batches[-1])


def test_the_view_can_be_taken_along(visit: Visit) -> None:
    """CSV adds up, JSON is the question with its answer, PNG is a picture, Markdown has the
    link.
    """
    page = visit(TRAIN).page
    settled(page)
    rows = list(csv.reader(io.StringIO(downloaded(page, "#step-export", "CSV").decode())))
    answer = json.loads(downloaded(page, "#step-export", "JSON"))
    picture = downloaded(page, "#step-export", "PNG")
    page.locator("#step-export").get_by_role("button", name="Copy Markdown").click()
    until(page, lambda: "| Component |" in page.evaluate("navigator.clipboard.readText()"))
    block = page.evaluate("navigator.clipboard.readText()")

    cells = list(csv.reader(io.StringIO(downloaded(page, "#map-export", "CSV").decode())))

    assert cells[-1][0] == "MI300X-192GB"
    assert all(sum(map(int, row[1:-1])) == int(row[-1]) for row in rows[1:])
    assert answer["question"]["model"] == "llama-3.2-1b"
    assert int(rows[-1][-1]) == answer["answer"]["per_gpu"]["device_bytes"]
    assert picture.startswith(b"\x89PNG")
    assert page.url in block


def test_no_mouse_is_needed(visit: Visit) -> None:
    """Keys alone choose a model from the list, the task, and reach the verdict's remedies."""
    page = visit("/").page
    settled(page)
    model = page.get_by_role("combobox", name="Model")
    model.focus()
    page.keyboard.type("qwen3 0.6")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("listbox").get_by_role("option", selected=True)).to_contain_text(
        "qwen3-0.6b"
    )
    page.keyboard.press("Enter")
    expect(model).to_have_value("qwen3-0.6b")
    expect(page.locator(".verdict-text")).to_contain_text("qwen3-0.6b")

    page.get_by_role("radio", name="Train").focus()
    page.keyboard.press("ArrowRight")

    expect(page.get_by_role("radio", name="Serve")).to_be_checked()
    expect(page.locator(".verdict-text")).to_contain_text("serving")


def test_escape_closes_the_list_alone(visit: Visit) -> None:
    """Escape leaves what was typed, as those who write with a list in the way expect."""
    page = visit("/").page
    settled(page)
    gpu = page.get_by_role("combobox", name="GPU")
    gpu.click()
    expect(page.get_by_role("listbox").nth(0)).to_be_visible()
    page.keyboard.press("Escape")

    expect(page.get_by_role("listbox")).to_have_count(0)
    expect(gpu).to_have_value("H100-SXM5-80GB")


def test_a_gpu_may_be_its_memory_and_a_model_its_size(visit: Visit) -> None:
    """What no catalogue has is asked about by numbers."""
    opened = visit("/?model=13B&gpu=96Gi&task=serve")
    expect(opened.page.locator(".verdict-text")).to_contain_text("a GPU of 96Gi")

    asked = opened.watch.asked("/v1/fit")[-1]
    assert (asked["model"], asked["gpu"]) == (
        {"num_parameters": 13_000_000_000},
        {"memory_bytes": "96Gi"},
    )


def test_the_same_can_be_asked_by_a_script(visit: Visit, base_url: str) -> None:
    """The JSON that the page shows gives the answer that the page shows."""
    page = visit(f"{TRAIN}&layout.pipeline_parallel=2&workload.framework=megatron").page
    settled(page)
    page.get_by_text("The same question from a script").click()
    page.locator("#script").get_by_role("tab", name="JSON").click()

    answer = httpx.post(
        f"{base_url}/v1/fit", json=json.loads(page.locator("#script pre").inner_text()), timeout=120
    ).json()
    expect(page.locator("#components caption").first).to_contain_text(
        f"{answer['per_gpu']['device_bytes'] / 2**30:.1f} GiB"
    )
    assert page.locator(".stages tbody tr").count() == len(answer["per_gpu"]["stages"]) == 2


def test_a_link_that_is_refused_says_so_and_shows_nothing_else(visit: Visit) -> None:
    """Without an answer there are no empty charts: the problem, its field, and after a mend the
    answer.
    """
    page = visit(f"{TRAIN}&layout.zero_stage=7", tolerated=(422,)).page

    expect(page.locator("#problem")).to_contain_text("zero_stage")
    expect(page.locator("#step-chart")).to_be_hidden()
    page.get_by_label("ZeRO stage").fill("")
    settled(page)
    expect(page.locator("#problem")).to_be_hidden()
