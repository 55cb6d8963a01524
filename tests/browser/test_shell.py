"""What all pages share: the frame, the themes, the key."""

import json

import httpx
import pytest
from playwright.sync_api import Route, expect

from tests.browser.conftest import Visit
from tests.browser.watching import faults_of_access

NEEDED = "Send a key of this server."
PAGES = {
    "Explore": "/",
    "Models": "/models",
    "Clusters": "/clusters",
    "Measurements": "/measurements",
    "Accuracy": "/accuracy",
}


def test_a_page_says_where_one_is(visit: Visit) -> None:
    """Every page has one heading, and marks itself among the pages that lead to each other."""
    page = visit("/").page
    for name, path in PAGES.items():
        page.get_by_role("navigation").get_by_role("link", name=name).click()
        page.wait_for_url(f"**{path}")

        expect(page.locator("h1")).to_have_count(1)
        expect(page.locator("nav [aria-current=page]")).to_have_attribute("href", path)
        page.wait_for_load_state("networkidle")


@pytest.mark.parametrize("path", ["/clusters", "/accuracy"])
def test_a_page_is_for_everybody_in_the_dark(visit: Visit, path: str) -> None:
    """Neither has a serious or critical fault of access; light ones, and the other pages, are
    looked at where they are full.
    """
    page = visit(path, scheme="dark").page
    page.wait_for_load_state("networkidle")

    assert faults_of_access(page) == []


def test_the_theme_stays(visit: Visit) -> None:
    """Who chooses dark has it on the next page too, whatever the system says."""
    page = visit("/clusters", fresh=True).page
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


def test_a_key_is_asked_for_once_and_kept_in_the_tab(visit: Visit, base_url: str) -> None:
    """Where the API answers 401 the page asks; a wrong key is told so, a right one is sent, and can
    be forgotten.
    """
    made = httpx.post(
        f"{base_url}/v1/keys", json={"name": "browser", "scopes": ["read", "plan"]}, timeout=120
    )
    assert made.status_code == 201, made.text
    page = visit("about:blank", tolerated=(401,), fresh=True).page
    page.context.route("**/v1/**", _as_if_keys_were_needed)
    page.goto(f"{base_url}/")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()

    dialog.get_by_label("API key").fill("hr_74260e60fc1e_…")
    dialog.get_by_role("button", name="Use key").click()
    expect(page.locator("#key-reason")).to_contain_text("This is no key")
    assert page.evaluate("sessionStorage.length") == 0
    dialog.get_by_label("API key").fill("hr_wrong")
    dialog.get_by_role("button", name="Use key").click()
    expect(page.locator("#key-reason")).not_to_have_text(NEEDED)
    dialog.get_by_label("API key").fill(made.json()["key"])
    dialog.get_by_label("API key").press("Enter")

    expect(page.locator(".verdict-line")).to_be_visible()
    assert made.json()["key"] not in page.url
    assert page.evaluate("[localStorage.length, document.cookie]") == [0, ""]
    page.get_by_role("button", name="Forget key").click()
    expect(dialog).to_be_visible()


def test_who_gives_no_key_is_told_so(visit: Visit, base_url: str) -> None:
    """Cancelling leaves the page as it is, with the server's own words."""
    page = visit("about:blank", tolerated=(401,), fresh=True).page
    page.context.route("**/v1/**", _as_if_keys_were_needed)
    page.goto(f"{base_url}/")
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()

    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(page.locator("#problem")).to_contain_text(NEEDED.removesuffix("."))


def _as_if_keys_were_needed(route: Route) -> None:
    """Answer as a server does that needs a key, and hand a request that has one on."""
    if "authorization" in route.request.headers:
        route.continue_()
        return
    body = {
        "type": "unauthorized",
        "title": "No key",
        "status": 401,
        "detail": NEEDED,
        "instance": "/v1",
    }
    route.fulfill(status=401, content_type="application/problem+json", body=json.dumps(body))
