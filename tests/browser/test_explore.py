"""Explore: the answer follows the question, and every word of it can be taken along."""

import json
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit
from tests.browser.watching import faults_of_access, until

FITS = "/?model=llama-3.2-1b&gpu=H100-SXM5-80GB&task=train&workload.sequence_length=2048"
TOO_MUCH = "/?model=llama-3.1-8b&gpu=A100-SXM4-40GB&task=train&workload.sequence_length=2048"
SERVING = "/?model=llama-3.1-8b&gpu=H100-SXM5-80GB&task=serve&workload.engine=vllm&workload.max_model_len=8192"  # noqa: E501
REFUSED = (
    ("GPU", "A100", "ambiguous"),
    ("Model", "llama-2-7bb", "Did you mean"),
    ("Sequence length", "4k", "Expected an integer"),
)


def verdict(page: Page) -> str:
    """Return the line that the page is about, once it is there."""
    expect(page.locator(".verdict-line")).to_be_visible()
    return page.locator(".verdict-line").inner_text()


def query(page: Page) -> dict[str, str]:
    """Return what the address says."""
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def field(page: Page, label: str) -> str:
    """Return what a field holds."""
    return page.get_by_label(label, exact=True).first.input_value()


def test_it_says_what_the_api_says(visit: Visit, base_url: str) -> None:
    """The line, the figures and every component are those of POST /v1/fit."""
    page = visit(FITS).page
    question = {
        "model": "llama-3.2-1b",
        "gpu": "H100-SXM5-80GB",
        "workload": {"task": "train", "sequence_length": 2048},
    }
    answer = httpx.post(f"{base_url}/v1/fit", json=question, timeout=120).json()

    assert verdict(page) == f"Fits, with {answer['headroom_bytes'] / 2**30:.1f} GiB to spare"
    shown = page.locator("#components tbody tr td[title*=' B']").evaluate_all(
        "cells => cells.map((cell) => cell.title)"
    )
    assert shown == [f"{part['bytes']:,} B" for part in answer["per_gpu"]["components"]]


def test_bars_are_told_as_a_table_too(visit: Visit) -> None:
    """Who does not see the chart reads each instant, and the parts of each row add up."""
    page = visit(FITS).page
    verdict(page)
    table = page.locator("#step-chart table")

    rows = table.locator("tbody tr").evaluate_all(
        "rows => rows.map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    assert [row[0] for row in rows] == [
        "load",
        "forward",
        "loss",
        "backward",
        "optimizer_step",
        "device",
    ]
    assert all(sum(map(int, row[1:-1])) == int(row[-1]) > 0 for row in rows)


def test_the_answer_follows_the_keys(visit: Visit) -> None:
    """Every number that is typed is asked about, the last one is shown, and soon one answer is
    there within 100 ms.
    """
    opened = visit(FITS)
    page = opened.page
    box = page.get_by_label("Sequence length", exact=True)
    line = verdict(page)

    box.press("End")
    box.press("0")
    expect(page.locator(".verdict-line")).not_to_have_text(line)
    assert opened.watch.asked("/v1/fit")[-1]["workload"]["sequence_length"] == 20480

    assert all(asked["remedies"] is False for asked in opened.watch.asked("/v1/fit"))

    def nudged() -> bool:
        current = int(box.input_value())
        box.fill(str(2048 if current == 4096 else 4096))
        page.wait_for_load_state("networkidle")
        return bool(
            page.evaluate(
                "performance.getEntriesByName('headroom.reprice').some((entry) => entry.duration < "
                "100)"
            ),
        )

    until(page, nudged)


def test_a_remedy_is_one_click(visit: Visit) -> None:
    """What would help becomes the question, and the answer is what was promised."""
    page = visit(TOO_MUCH).page
    assert verdict(page).startswith("Does not fit")
    row = page.locator("#remedies tbody tr").filter(has=page.locator(".is-fits")).first
    row.get_by_role("button", name="Apply").click()

    expect(page.locator(".verdict-line")).to_contain_text("Fits")
    expect(page.locator("#remedies-panel")).to_be_hidden()


def test_a_link_shows_the_same(visit: Visit) -> None:
    """What was typed is in the address, and the address alone brings it back."""
    page = visit(FITS).page
    verdict(page)
    page.get_by_label("Method", exact=True).select_option("lora")
    page.get_by_label("LoRA rank", exact=True).fill("64")
    until(page, lambda: query(page).get("workload.lora.rank") == "64")

    again = visit(page.url).page

    expect(page.locator(".verdict-line")).to_have_text(verdict(again))
    assert (field(again, "LoRA rank"), field(again, "Method")) == ("64", "lora")


def test_back_and_forward_work(visit: Visit) -> None:
    """A step that was taken can be gone back from."""
    page = visit(FITS).page
    line = verdict(page)
    page.get_by_text("Serve", exact=True).click()
    expect(page.locator(".verdict-text")).to_contain_text("serving")

    page.go_back()
    expect(page.locator(".verdict-line")).to_have_text(line)
    page.go_forward()
    expect(page.locator(".verdict-text")).to_contain_text("serving")


def test_a_refusal_stands_at_its_field(visit: Visit) -> None:
    """The API's own words are beside the field that they are about, and gone with the mistake."""
    page = visit(FITS, tolerated=(422,)).page
    verdict(page)
    for label, typed, said in REFUSED:
        box = page.get_by_label(label, exact=True)
        good = box.input_value()
        box.fill(typed)
        box.press("Enter")

        expect(box).to_have_attribute("aria-invalid", "true")
        expect(page.locator(".field-error")).to_contain_text(said)
        assert "error" in (box.get_attribute("aria-describedby") or "")
        box.fill(good)
        box.press("Enter")
        expect(page.locator(".field-error")).to_have_count(0)
        expect(page.locator("#problem")).to_be_hidden()


def test_a_pasted_config_is_asked_about(visit: Visit, base_url: str) -> None:
    """A config.json in place of a name; one that is no JSON is told so before anything is sent."""
    config = {
        "model_type": "llama",
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_attention_heads": 32,
        "num_hidden_layers": 16,
        "num_key_value_heads": 8,
        "vocab_size": 32000,
    }
    page = visit("/").page
    verdict(page)
    page.get_by_text("Paste a config.json").click()
    page.get_by_label("config.json", exact=True).fill("{")
    expect(page.locator("#problem")).to_contain_text("not JSON")

    page.get_by_label("config.json", exact=True).fill(json.dumps(config))

    expect(page.locator(".verdict-text")).to_contain_text("your llama")
    question = {
        "model": {"hf_config": config},
        "gpu": "H100-SXM5-80GB",
        "workload": {
            "task": "train",
            "method": "lora",
            "precision": "bf16",
            "sequence_length": 4096,
        },
    }
    answer = httpx.post(f"{base_url}/v1/fit", json=question, timeout=120).json()
    assert (
        f"{answer['per_gpu']['device_bytes'] / 2**30:.1f} GiB"
        in page.locator(".verdict-text").inner_text()
    )


@pytest.mark.parametrize(("path", "scheme"), [(TOO_MUCH, "light"), (SERVING + "&plan=1", "dark")])
def test_answers_are_fit_for_everybody(visit: Visit, path: str, scheme: str) -> None:
    """The axe checker finds no serious or critical fault in a page full of answers, two of them
    side by side.
    """
    page = visit(path, scheme=scheme).page
    verdict(page)
    expect(page.locator("#map table")).to_have_count(1)
    if "plan=1" in path:
        expect(page.locator(".plan-count")).to_be_visible()
    else:
        page.get_by_role("button", name="Keep this answer").click()
        page.get_by_role("combobox", name="GPU").fill("B200-SXM6-180GB")
        expect(page.locator("#compare thead th")).to_have_count(3)

    assert faults_of_access(page) == []


@pytest.mark.parametrize("width", [360, 1600])
def test_nothing_sticks_out(visit: Visit, width: int) -> None:
    """The page is as wide as the window, on a phone and on a wide screen."""
    page = visit(TOO_MUCH, width=width).page
    verdict(page)
    expect(page.locator("#map table")).to_have_count(1)

    assert page.evaluate("document.documentElement.scrollWidth") <= width
