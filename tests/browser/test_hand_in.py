"""What somebody has in place of our words: a launch, a message, an inventory, a model's files."""

import json
from pathlib import Path

import httpx
from playwright.sync_api import Page, expect

from service.estimator.model.weights.ggml import BLOCKS
from service.formats.checkpoints.gguf_document import join_headers
from service.formats.checkpoints.gguf_header import parse_gguf_header
from tests.browser.conftest import Visit
from tests.browser.watching import faults_of_access, until
from tests.unit.formats.inventories.listing_samples import load_text

COMMAND = (
    "vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 2 --max-model-len 8k --seed 1 "
    "--api-key-file-of-nobody x"
)
MESSAGE = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.91 GiB. GPU 0 has a total "
    "capacity of 79.11 GiB of which 1.99 GiB is free. Including non-PyTorch memory, this process "
    "has 77.12 GiB memory in use. Of the allocated memory 75.50 GiB is allocated by PyTorch, and "
    "0.60 GiB is reserved by PyTorch but unallocated."
)
GGUF = Path(__file__).parents[1] / "data/checkpoints/gguf"


def hand_in(page: Page, text: str) -> None:
    """Paste a text into the box of Explore."""
    box = page.get_by_label("A command, the text of a file")
    if not box.is_visible():
        page.get_by_text("Ask with what you have").click()
    box.fill(text)
    box.press("Control+Enter")


def test_a_launch_becomes_the_question_and_its_failure_is_explained(
    visit: Visit, base_url: str
) -> None:
    """The form holds what the API reads, what it leaves open is a field, and what is no launch is
    refused at its field.
    """
    opened = visit("/", tolerated=(422,))
    page = opened.page
    hand_in(page, "ls -la")
    expect(page.locator("#hand-in-form .field-error")).to_contain_text(
        "ls (command): no launcher is known by it"
    )

    hand_in(page, COMMAND)
    expect(page.locator("#launch-outcome")).to_contain_text("Read as vllm")
    expect(page.locator(".verdict-text")).to_contain_text("serving on vllm on 2 \u00d7")
    expect(page.locator("#launch-outcome .is-warn")).to_contain_text("--api-key-file-of-nobody")
    sequences = page.locator("#launch-outcome").get_by_label("Sequences", exact=True)
    expect(sequences).to_have_value("16")
    sequences.fill("64")
    sequences.press("Enter")
    sequences.blur()
    until(page, lambda: opened.watch.asked("/v1/fit")[-1]["workload"]["num_sequences"] == 64)
    said = {"num_sequences": 64, "prompt_tokens": 1024}
    answer = httpx.post(
        f"{base_url}/v1/launches/import",
        json={"command": COMMAND, "gpu": "H100-SXM5-80GB", "workload": said},
        timeout=120,
    ).json()
    asked = opened.watch.asked("/v1/fit")[-1]
    assert {name: asked[name] for name in answer["question"]} == answer["question"]
    page.get_by_text("Without effect on memory").click()
    expect(page.locator("#launch-outcome .chips")).to_contain_text("--seed")

    page.get_by_label("What failed is what the form below asks").check()
    hand_in(page, MESSAGE)
    expect(page.locator("#failure-outcome")).to_contain_text("Predicted beside read")
    expect(page.locator("#launch-outcome")).to_be_hidden()
    expect(page.locator("#failure-outcome")).to_be_focused()
    assert faults_of_access(page) == []


def test_what_a_scheduler_prints_is_stored_as_it_was_seen(visit: Visit, base_url: str) -> None:
    """A dry run is shown first, a GPU that nobody knows is asked for, and the name is needed."""
    page = visit("/clusters", width=390, scheme="dark", tolerated=(422,)).page
    page.wait_for_load_state("networkidle")
    if not page.get_by_label("Inventory as JSON").is_visible():
        page.get_by_text("Store an inventory").click()
    show = page.get_by_role("button", name="Show what would change")
    page.get_by_label("Inventory as JSON").fill(load_text("slurm_26_05_scontrol.json"))
    show.click()
    expect(page.get_by_label("Name of the cluster")).to_be_focused()

    page.get_by_label("Name of the cluster").fill("handed-in")
    show.click()
    expect(page.locator("#editor .facts")).to_contain_text("4 nodes, 22 GPUs")
    unknown = page.get_by_label("zeta9000 is")
    unknown.fill("much")
    unknown.press("Tab")
    expect(page.locator("#editor .field-error")).to_contain_text("much")
    unknown.fill("22Gi")
    unknown.press("Tab")
    expect(page.locator("#editor .field-error")).to_have_count(0)
    expect(page.locator("#editor tbody tr")).to_have_count(7)
    assert faults_of_access(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    with page.expect_navigation(url="**/clusters/handed-in"):
        page.get_by_role("button", name="Store handed-in").click()
    stored = httpx.get(f"{base_url}/v1/clusters/handed-in", timeout=120)
    assert {pool["gpu"] for pool in stored.json()["pools"]} >= {"zeta9000", "A100-SXM4-80GB"}
    gone = httpx.delete(
        f"{base_url}/v1/clusters/handed-in", headers={"If-Match": stored.headers["etag"]}
    )
    assert gone.is_success


def test_headers_of_a_models_files_are_read_in_the_browser(visit: Visit, base_url: str) -> None:
    """What the page makes of a GGUF file is what the command makes of it; it is stored, and a hub
    that the server may not ask is told so.
    """
    opened = visit("/models", tolerated=(422,))
    page = opened.page
    page.get_by_text("Bring a model").click()
    box = page.locator("#bring-files")
    sets = [sorted(GGUF.glob("split-*.gguf")), *([one] for one in sorted(GGUF.glob("[m-t]*.gguf")))]
    sets = [files for files in sets if len(files) > 1 or "split" not in files[0].name]
    script = """async () => {
      const root = document.querySelector("script[type=module]").src.replace(/js\\/.*/, "js/models/");
      const { ggufOf, TYPES } = await import(root + "gguf.js");
      return [await ggufOf([...window.taken].reverse()), TYPES];
    }"""  # noqa: E501
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('input'), "
        "{type: 'file', multiple: true, id: 'probe', ariaLabel: 'Probe', "
        "onchange: (event) => (window.taken = event.target.files)}))"
    )
    for files in sets:
        page.set_input_files("#probe", files)
        document, types = page.evaluate(script)
        headers = []
        for file in files:
            with file.open("rb") as stream:
                headers.append(parse_gguf_header(stream))
        assert document == join_headers(headers).describe(), files
        assert types == {str(block.number): name.value for name, block in BLOCKS.items()}

    box.set_input_files(GGUF / "mixtral.gguf")
    expect(page.get_by_label("Store it as")).to_have_value("mixtral")
    page.get_by_label("Store it as").fill("handed-in-mixtral")
    page.get_by_role("button", name="Store", exact=True).click()
    expect(page.locator("#found h2")).to_have_text("handed-in-mixtral")
    stored = httpx.get(f"{base_url}/v1/models/handed-in-mixtral", timeout=120).json()
    assert stored["gguf"]["total_bytes"] > 0
    assert len(json.dumps(opened.watch.asked("/v1/models")[-1])) < 20_000
    page.get_by_label("Or its id on the hub").fill("org/name")
    page.get_by_role("button", name="Store", exact=True).click()
    expect(page.locator("#bring .field-error")).to_contain_text("HEADROOM_HUB=true")
    assert faults_of_access(page) == []
