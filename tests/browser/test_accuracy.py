"""The page of accuracy: errors by class before and after what was learnt, and measuring again what
no longer holds.
"""

import json
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit
from tests.browser.imports import add_reading
from tests.browser.watching import faults_of_access

FAMILY = "phi3"
MODEL = "phi-3-mini-4k"


@pytest.fixture(scope="module")
def api(base_url: str) -> Iterator[httpx.Client]:
    """Return a client of the service that the pages are of."""
    with httpx.Client(base_url=base_url, timeout=120) as client:
        yield client


@pytest.fixture(scope="module", autouse=True)
def taught(api: httpx.Client) -> None:
    """Store four measurements of one model, each a per cent below what was predicted."""
    for length in (128, 256, 512, 1024):
        add_reading(api, model=MODEL, sequence_length=length, off_by=0.01)


def shown(page: Page) -> Page:
    """Return a page once its classes are there."""
    expect(page.locator("#classes table")).to_be_visible()
    return page


def test_classes_tell_their_errors_before_and_after(visit: Visit) -> None:
    """Learning halves an error that all measurements share; the figures sum up, and the picture has
    a table beside it.
    """
    page = shown(visit(f"/accuracy?family={FAMILY}").page)
    row = page.locator("#classes tbody tr", has_text="allocated")

    expect(row).to_contain_text("1.00 % → ")
    expect(page.locator("#figures")).to_contain_text("Within the interval")
    expect(page.locator("#errors tbody tr")).to_have_count(2)
    page.get_by_label("Quantity").select_option("reserved")
    expect(row).to_have_count(0)
    assert "quantity=reserved" in page.url


def test_without_measurements_the_shipped_intervals_are_open(visit: Visit) -> None:
    """Whoever has measured nothing of a family sees what its answers rest on."""
    page = visit("/accuracy?family=zamba2").page

    expect(page.locator("#shipped-panel")).to_have_attribute("open", "")
    expect(page.locator("#shipped")).to_contain_text("Training, allocated")


def test_nothing_of_a_kind_says_so(visit: Visit) -> None:
    """A filter that lets nothing through is no empty table; an unknown GPU is refused beside its
    field.
    """
    page = visit("/accuracy?device=cpu", tolerated=(422,)).page
    expect(page.locator("#classes .empty")).to_contain_text(
        "Nothing that was measured is like this"
    )

    page.get_by_label("GPU").fill("A1000000")
    page.keyboard.press("Enter")
    expect(page.locator("#filter .field-error")).to_be_visible()


def test_what_was_learnt_is_listed(visit: Visit) -> None:
    """What holds is listed with what it rests on; asking again for what nobody here ran is refused
    in words.
    """
    page = visit("/accuracy", tolerated=(422,)).page
    rows = page.locator("#calibration-list tbody tr", has_text=FAMILY)
    expect(rows).to_have_count(2)
    expect(page.locator("#pools table")).to_be_visible()
    page.get_by_label("Show", exact=True).select_option("all, superseded too")
    expect(page.locator("#calibration-list .tag", has_text="superseded").first).to_be_visible()

    rows.first.get_by_role("button", name="Measure again").click()
    expect(page.locator("#calibration-list").get_by_role("alert")).to_contain_text(
        "no measurement that a worker here could repeat"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accuracy_is_fit_for_everybody(visit: Visit, scheme: str) -> None:
    """The axe checker finds no serious fault, and a phone shows it all."""
    page = shown(visit("/accuracy", scheme=scheme, width=360, height=740).page)
    page.get_by_text("Intervals that are shipped").click()

    assert faults_of_access(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_accuracy_can_be_taken_along(visit: Visit) -> None:
    """As a table, as JSON, as a picture, and as a block for a ticket."""
    page = shown(visit(f"/accuracy?family={FAMILY}").page)
    saved = {}
    for kind in ("CSV", "JSON", "PNG"):
        with page.expect_download() as download:
            page.get_by_role("button", name=kind).click()
        saved[kind] = download.value.path().read_bytes()

    assert len(saved["CSV"].splitlines()) == 3
    assert json.loads(saved["JSON"])["level"] == 0.95
    assert saved["PNG"].startswith(b"\x89PNG")
    page.get_by_role("button", name="Copy Markdown").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert "| 4 | 1.00 % → " in page.evaluate("navigator.clipboard.readText()")
