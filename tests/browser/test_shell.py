"""What all pages share: the frame, the themes, the key."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visit
from tests.browser.watching import faults_of_access

PAGES = ("/", "/clusters", "/measurements", "/accuracy")


@pytest.mark.parametrize("path", PAGES)
def test_a_page_says_where_one_is(visit: Visit, path: str) -> None:
    """Every page has one heading and marks itself among the pages."""
    page = visit(path).page

    expect(page.locator("h1")).to_have_count(1)
    expect(page.locator("nav [aria-current=page]")).to_have_attribute("href", path)


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_is_fit_for_everybody(visit: Visit, path: str, scheme: str) -> None:
    """The axe checker finds no serious or critical fault on an empty page, in either theme."""
    page = visit(path, scheme=scheme).page
    page.wait_for_load_state("networkidle")

    assert faults_of_access(page) == []


def test_the_theme_stays(visit: Visit) -> None:
    """Who chooses dark has it on the next page too, whatever the system says."""
    page = visit("/clusters").page
    theme = page.get_by_role("button", name="Theme")
    theme.click()
    theme.click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")

    page.goto("/accuracy")

    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.get_by_role("button", name="Theme")).to_have_text("Theme: dark")


def test_the_first_stop_skips_the_header(visit: Visit) -> None:
    """The first key press of somebody without a mouse offers the content."""
    page = visit("/accuracy").page
    page.keyboard.press("Tab")

    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
