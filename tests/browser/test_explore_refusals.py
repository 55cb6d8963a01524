"""Explore where the form holds what is refused: nothing of the answer before is taken for its
answer.
"""

import httpx
from playwright.sync_api import Route, expect

from tests.browser.conftest import Visit
from tests.browser.watching import until

FITS = "/?model=llama-3.2-1b&gpu=H100-SXM5-80GB&task=train&workload.sequence_length=2048"


def test_what_is_refused_leaves_no_answer_to_act_upon(visit: Visit) -> None:
    """The old answer steps back whole, and the search asks what the form holds, not what was
    answered last.
    """
    opened = visit(FITS, tolerated=(422,))
    page = opened.page
    expect(page.locator(".verdict-line")).to_be_visible()
    page.get_by_label("Sequence length", exact=True).fill("-5")
    expect(page.locator("#problem")).to_be_visible()

    kept = page.locator("#answers > :not([inert])").evaluate_all(
        "parts => parts.map((part) => part.id)"
    )
    assert kept == ["problem", "search"]
    assert "Fits" not in page.title()
    page.get_by_role("button", name="Find").click()
    expect(page.locator("#plan [role=alert]")).to_be_visible()
    assert opened.watch.asked("/v1/plans")[-1]["workload"]["sequence_length"] == -5
    page.get_by_label("Sequence length", exact=True).fill("1024")
    expect(page.locator("#answers > [inert]")).to_have_count(0)


def test_an_answer_that_comes_late_takes_no_refusal_back(visit: Visit) -> None:
    """A form that cannot be read, or was changed, is done with what was asked before."""
    opened = visit(FITS)
    page = opened.page
    expect(page.locator(".verdict-line")).to_be_visible()
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/v1/fit", hold)
    page.route("**/v1/plans", hold)
    page.get_by_role("button", name="Find").click()
    page.get_by_label("Sequence length", exact=True).fill("1024")
    until(page, lambda: len(held) == 2)
    page.get_by_text("Paste a config.json").click()
    page.locator("#config").fill("{x")
    expect(page.locator("#problem")).to_contain_text("not JSON")

    until(page, lambda: all(route.request.failure == "net::ERR_ABORTED" for route in held))
    expect(page.locator("#plan")).to_be_empty()


def test_a_plan_on_a_gpu_of_ones_own_is_used(visit: Visit, base_url: str) -> None:
    """The memory that was typed stays what it was when a candidate becomes the question, and bare
    bytes are memory too.
    """
    opened = visit(FITS.replace("H100-SXM5-80GB", "80Gi"))
    page = opened.page
    page.get_by_role("button", name="Find").click()
    page.get_by_role("button", name="Use").first.click()

    until(page, lambda: "micro_batch_size" in opened.watch.asked("/v1/fit")[-1]["workload"])
    expect(page.get_by_label("GPU", exact=True).first).to_have_value("80Gi")
    page.goto(f"{base_url}{FITS.replace('H100-SXM5-80GB', str(80 * 2**30))}")
    expect(page.locator(".verdict-text")).to_contain_text("a GPU of 80.0 GiB")
    question = opened.watch.asked("/v1/fit")[-1]
    assert question["gpu"] == {"memory_bytes": 80 * 2**30}
    assert httpx.post(f"{base_url}/v1/fit", json=question, timeout=120).status_code == 200


def test_a_question_about_a_model_that_is_being_recorded_runs_itself(visit: Visit) -> None:
    """Nobody has to ask again: the answer comes once the recording is there."""
    opened = visit(FITS, tolerated=(409,))
    page = opened.page
    expect(page.locator(".verdict-line")).to_be_visible()
    refused: list[Route] = []

    def record(route: Route) -> None:
        if refused:
            route.continue_()
            return
        refused.append(route)
        problem = {"type": "model-recording", "title": "This model is being recorded"}
        route.fulfill(status=409, json={**problem, "status": 409, "detail": "at 50%", "errors": []})

    page.route("**/v1/fit", record)
    page.get_by_label("Sequence length", exact=True).fill("1024")
    expect(page.locator("#problem")).to_contain_text("is being recorded")

    expect(page.locator("#answers > [inert]")).to_have_count(0)
    expect(page.locator("#problem")).to_be_hidden()
