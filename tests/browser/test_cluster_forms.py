"""What is typed into the forms of a cluster and refused: it is said where it is seen, and nothing
stale stays.
"""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit

NAME = "forms"
POOL = {"name": "p", "gpu": "A100-SXM4-80GB", "gpus_per_node": 8, "nodes": [{"name": "n1"}]}
OTHER_WORDS = {
    '{"num_sequences": 5}': "num_sequences",
    '{"length": 5}': "length",
    "5": "5 is none",
    "null": "null is none",
    "{": "JSON object: Expected",
}
QUESTION = f"/clusters/{NAME}?model=llama-2-7b&task=train&method=lora&sequence_length=2048"


@pytest.fixture(scope="module")
def api(base_url: str) -> Iterator[httpx.Client]:
    """Return a client of the service that the pages are of."""
    with httpx.Client(base_url=base_url, timeout=120) as client:
        client.post("/v1/clusters", json={"name": NAME, "pools": [POOL]}).raise_for_status()
        yield client


@pytest.fixture
def page(visit: Visit, api: httpx.Client) -> Page:  # noqa: ARG001 - stores the cluster
    """Return the page of the cluster with a plan on it."""
    page = visit(QUESTION, tolerated=(422,)).page
    expect(page.locator(".verdict")).to_be_visible()
    return page


def test_other_words_that_are_refused_are_told(page: Page) -> None:
    """An error about a field that is hidden, or that no form has, is told where it is seen, and the
    plan before goes.
    """
    for words, said in OTHER_WORDS.items():
        page.get_by_label("Other words").fill(words)
        page.get_by_role("button", name="Place it").click()

        told = page.locator("#refusal [role=alert]:visible, #question .field-error:visible")
        expect(told.first).to_contain_text(said)
        expect(page.locator("#answer")).to_be_empty()
    with page.expect_download() as download:
        page.get_by_role("button", name="JSON").click()
    assert json.loads(download.value.path().read_bytes())["plan"] is None


def test_no_number_is_sent_as_it_was_typed(page: Page) -> None:
    """The refusal is of what was typed, in the field that it was typed into."""
    page.get_by_label("Sequence length").fill("4k")
    page.get_by_role("button", name="Place it").click()

    expect(page.locator(".field-error")).to_be_visible()
    expect(page.locator(".field-error")).not_to_contain_text("null")


def test_what_no_bar_shows_can_be_stored(page: Page, api: httpx.Client) -> None:
    """The memory of hosts is a change like any other; the inventory of another cluster is not
    stored here.
    """
    page.get_by_text("Store an inventory").click()
    box = page.get_by_label("Inventory as JSON")
    changed: dict[str, Any] = {**POOL, "host_memory_bytes": "512Gi"}
    box.fill(json.dumps({"name": "other", "pools": [changed]}))
    page.get_by_role("button", name="Show what would change").click()
    expect(page.locator("#editor .notice")).to_contain_text("This is the inventory of other")

    box.fill(json.dumps({"pools": [changed]}))
    page.get_by_role("button", name="Show what would change").click()
    expect(page.locator("#editor tbody tr")).to_have_text(
        ["pool p, host_memory_bytesnot told → 512Gi"]
    )
    with page.expect_navigation():
        page.get_by_role("button", name=f"Replace {NAME}").click()
    assert api.get(f"/v1/clusters/{NAME}").json()["pools"][0]["host_memory_bytes"] == 512 * 2**30
