"""Addresses that somebody shortened, mistyped or goes back to: a page says what it makes of each."""

import csv
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visit
from tests.browser.imports import add_reading


@pytest.fixture(scope="module")
def imported(base_url: str) -> Iterator[str]:
    """Store a measurement that has peaks and no samples; return its id."""
    with httpx.Client(base_url=base_url, timeout=30) as client:
        yield add_reading(client, model="qwen3-0.6b", sequence_length=256, off_by=0.001)


@pytest.mark.parametrize("path", ["/clusters/%E0%A4%A", "/measurements/%ff"])
def test_a_name_that_is_no_text_is_not_found(visit: Visit, path: str) -> None:
    """Bytes that are no UTF-8 are no name of anything, and are told to be none."""
    page = visit(path, tolerated=(404, 422)).page

    expect(page.locator("#trouble [role=alert]")).to_be_visible()


def test_a_view_that_there_is_not_is_told(visit: Visit, imported: str) -> None:
    """An unknown quantity shows the usual one, and says so."""
    page = visit("/measurements?quantity=evil&model=qwen3-0.6b").page

    expect(page.locator("#scatter-words")).to_contain_text("There is no quantity “evil”: this is allocated")
    expect(page.locator(f"#table a[href='/measurements/{imported}']").first).to_be_visible()
    page.goto("/accuracy?holds=evil")
    expect(page.locator("#holds")).to_have_value("")


@pytest.mark.parametrize("path", ["/measurements", "/accuracy"])
def test_a_filter_is_a_step_to_go_back_from(visit: Visit, imported: str, path: str) -> None:  # noqa: ARG001 - stored
    """Going back takes the last filter off and stays on the page."""
    page = visit(path).page
    page.wait_for_load_state("networkidle")
    box = page.locator("#filter").get_by_label("Measured on")
    box.select_option("cpu")
    page.wait_for_url("**device=cpu")
    page.go_back()

    expect(box).to_have_value("")
    assert page.url.endswith(path)


def test_an_import_is_taken_along_as_its_peaks(visit: Visit, imported: str) -> None:
    """Where there are no samples the table is what was read at the peak."""
    page = visit(f"/measurements/{imported}").page
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    rows = list(csv.DictReader(download.value.path().read_text().splitlines()))

    assert [row["quantity"] for row in rows] == ["allocated_bytes", "reserved_bytes"]
    assert all(float(row["measured"]) > 0 and float(row["predicted"]) > 0 for row in rows)
