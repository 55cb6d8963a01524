"""What goes along with a link: a pasted config of any length, and answers that were kept to
compare.
"""

import csv
import io
import json
import random
import shlex
import string
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Page, expect

from service.__main__ import main
from tests.browser.conftest import Visit
from tests.browser.watching import until

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_attention_heads": 32,
    "num_hidden_layers": 16,
    "num_key_value_heads": 8,
    "vocab_size": 32000,
}
LONGEST_REQUEST = 65_536
"""What the server's parser takes of a request's first line and headers (h11 and httptools alike).
"""
TRAIN = "/?model=llama-3.2-1b&gpu=A100-SXM4-40GB&task=train&workload.sequence_length=2048"


def long_config(num_bytes: int) -> dict[str, Any]:
    """Return a config with words that compress badly, and with the names of many labels."""
    letters = random.Random(1)  # noqa: S311 - only to be incompressible, and the same every time
    names = ["".join(letters.choices(string.ascii_lowercase, k=40)) for _ in range(num_bytes // 60)]
    return {
        **CONFIG,
        "ignored_layers": names,
        "id2label": dict(enumerate(names)),
        "label2id": dict.fromkeys(names, 0),
    }


def paste(page: Page, text: str) -> None:
    """Paste a config.json."""
    page.get_by_text("Paste a config.json").click()
    page.get_by_label("config.json", exact=True).fill(text)


def test_a_long_config_goes_along_and_becomes_short_under_a_name(
    visit: Visit, base_url: str
) -> None:
    """A link that no server would take shows the same elsewhere; cut off it says so, and a stored
    model makes it short.
    """
    config = json.dumps(long_config(150_000))
    opened = visit(TRAIN)
    paste(opened.page, config)
    expect(opened.page.locator("#config-note")).to_contain_text("may cut it off")
    expect(opened.page.locator("#map-problem")).to_contain_text("store the model under a name")
    link = opened.page.url
    assert len(link) > LONGEST_REQUEST
    assert all("label2id" not in str(asked) for asked in opened.watch.asked("/v1/fit"))

    page = visit(link).page
    expect(page.locator(".verdict-text")).to_contain_text("your llama")
    assert (
        page.locator(".verdict-line").inner_text()
        == opened.page.locator(".verdict-line").inner_text()
    )
    page.goto("about:blank")
    page.goto(link[:-9])
    expect(page.locator("#problem")).to_contain_text("This link is not whole")

    opened.page.get_by_label("Store it as a model named").fill("pasted-llama")
    opened.page.get_by_role("button", name="Store", exact=True).click()
    expect(opened.page.locator(".verdict-text")).to_contain_text("pasted-llama")
    assert len(opened.page.url) < 300
    stored = httpx.get(f"{base_url}/v1/models/pasted-llama", timeout=120).json()
    assert stored["parameters"]["total"] > CONFIG["vocab_size"] * CONFIG["hidden_size"]
    opened.page.go_back()
    expect(opened.page.locator(".verdict-text")).to_contain_text("your llama")


def test_labels_count_though_their_names_are_left_out(visit: Visit, base_url: str) -> None:
    """The answer to a config without its labels is that to the whole one."""
    config = {
        "model_type": "vit",
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_attention_heads": 12,
        "num_hidden_layers": 12,
        "image_size": 224,
        "patch_size": 16,
        "num_channels": 3,
        "id2label": {str(number): f"label {number}" for number in range(1000)},
    }
    opened = visit(TRAIN.replace("2048", "197"))
    paste(opened.page, json.dumps(config))
    expect(opened.page.locator(".verdict-text")).to_contain_text("your vit")
    asked = opened.watch.asked("/v1/fit")[-1]
    whole = {**asked, "model": {"hf_config": config}}
    ours, theirs = (
        httpx.post(f"{base_url}/v1/fit", json=one, timeout=120).json() for one in (asked, whole)
    )

    assert asked["model"]["hf_config"]["num_labels"] == 1000
    assert "id2label" not in asked["model"]["hf_config"]
    assert ours["per_gpu"] == theirs["per_gpu"]


def test_answers_stand_side_by_side(visit: Visit) -> None:
    """What was kept stays while the question changes, goes along in the link, and can be shown
    again and dropped.
    """
    page = visit(f"{TRAIN}&workload.micro_batch_size=4").page
    expect(page.locator(".verdict-line")).to_be_visible()
    page.get_by_role("button", name="Keep this answer").press("Enter")
    expect(page.get_by_role("button", name="Kept as 1")).to_be_focused()
    page.get_by_label("Activation checkpointing").select_option("full")
    expect(page.locator("#compare thead th")).to_have_count(3)
    with page.expect_download() as download:
        page.locator("#compare-export").get_by_role("button", name="CSV").click()
    table = {
        row[0]: row[1:] for row in csv.reader(io.StringIO(Path(download.value.path()).read_text()))
    }

    assert table[""] == ["1", "Now"]
    assert table["Activation checkpointing"] == ["default", "full"]
    assert "Optimizer" not in table
    needed = [float(cell.split()[0]) for cell in table["Needs per GPU"]]
    assert needed[1] < needed[0]
    assert table["Weights"][0] == table["Weights"][1]
    until(page, lambda: "#with=" in page.url)
    again = visit(page.url).page
    expect(again.locator("#compare")).to_have_text(
        page.locator("#compare").inner_text(), use_inner_text=True
    )
    again.get_by_role("button", name="Show 1").click()
    expect(again.get_by_label("Activation checkpointing")).to_have_value("")
    expect(again.locator("#compare thead th")).to_have_count(2)
    again.get_by_role("button", name="Drop 1").click()
    expect(again.locator("#compare-note")).to_be_visible()
    expect(again.get_by_role("button", name="Keep this answer")).to_be_focused()
    until(again, lambda: "#with=" not in again.url)


def test_the_command_that_is_shown_asks_the_same(visit: Visit, capsys: Any) -> None:  # noqa: ANN401 - pytest's own
    """The line for a terminal runs as it stands, and its answer is the page's."""
    page = visit(
        f"{TRAIN}&workload.method=lora&workload.lora.rank=8&workload.compile=false&layout.data_parallel=2"
    ).page
    expect(page.locator(".verdict-line")).to_be_visible()
    page.get_by_text("The same question from a script").click()
    page.locator("#script").get_by_role("tab", name="headroom").click()
    words = shlex.split(page.locator("#script pre").inner_text().replace("\\\n", " "))
    assert main([*words[1:], "--json"]) == 0

    answer = json.loads(capsys.readouterr().out)
    expect(page.locator("#components caption").first).to_contain_text(
        f"{answer['per_gpu']['device_bytes'] / 2**30:.1f} GiB"
    )
