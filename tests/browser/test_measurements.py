"""The pages of measurements: a job as it runs, the table and its filters, and predicted against
measured.
"""

import json
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Page, expect

from service.formats.measured.detect import parse
from service.formats.measured.reading import Format
from tests.browser.conftest import Visit
from tests.browser.imports import add_jobs, add_reading
from tests.browser.watching import faults_of_access
from tests.tiny_models import TINY

LENGTHS = (256, 512, 1024)
# A worker loads torch before it measures, on a machine that does other things too.
PATIENCE_MS = 300_000


@pytest.fixture(scope="module")
def api(base_url: str) -> Iterator[httpx.Client]:
    """Return a client of the service that the pages are of."""
    with httpx.Client(base_url=base_url, timeout=120) as client:
        yield client


@pytest.fixture(scope="module", autouse=True)
def imported(api: httpx.Client) -> dict[int, str]:
    """Store three measurements of one model, the last far from what was predicted; return their ids
    by length.
    """
    errors = {256: 0.001, 512: -0.001, 1024: 0.2}
    return {
        length: add_reading(
            api, model="llama-3.2-3b", sequence_length=length, off_by=errors[length]
        )
        for length in LENGTHS
    }


@pytest.fixture(scope="module")
def tiny(api: httpx.Client) -> str:
    """Store a model that is traced in a moment; return its name."""
    source = {"hf_config": TINY["llama"] | {"model_type": "llama"}}
    api.post("/v1/models", json={"name": "tiny-browser", "source": source}).raise_for_status()
    return "tiny-browser"


def table_of(page: Page) -> Page:
    """Return a page once its table is there."""
    expect(page.locator("#table table")).to_be_visible()
    return page


def test_a_measurement_is_asked_for_and_watched(visit: Visit, tiny: str) -> None:
    """From the form to the result on one page: what is planned, how far it is, and what was found
    beside what was said.
    """
    opened = visit("/measurements", tolerated=(422,))
    page = opened.page
    page.get_by_text("Ask for a measurement").click()
    form = page.locator("#ask")
    form.get_by_label("Model").fill(tiny)
    form.get_by_label("Sequence length").fill("64")
    expect(page.locator("#ask-note")).to_contain_text("on trace")
    form.get_by_label("Measure on").select_option("cpu")
    form.get_by_label("Keep a memory snapshot").check()
    form.get_by_role("button", name="Measure").click()
    expect(page.locator("#ask-trouble")).to_contain_text("no caching allocator")
    form.get_by_label("Measure on").select_option("trace")
    form.get_by_role("button", name="Measure").click()

    expect(page.locator("h1")).to_have_text(tiny)
    expect(page.get_by_role("region", name="Progress")).to_be_visible()
    expect(page.locator("#status")).to_have_text("succeeded", timeout=PATIENCE_MS)
    expect(page.get_by_role("region", name="Progress")).to_have_count(0)
    expect(page.locator("#plan tbody tr").first).to_contain_text("the whole model")
    expect(page.locator("#peaks tbody tr").first).to_contain_text("Allocated")
    expect(page.locator("#peaks .strip").first).to_be_visible()
    expect(page.locator("#instants tbody tr")).to_have_count(5)
    expect(page.locator("#content tbody tr").first).to_be_attached()
    expect(page.locator("#timeline tbody tr").first).to_contain_text("process")
    with page.expect_download() as saved:
        page.get_by_role("button", name="memory snapshot").click()
    assert saved.value.suggested_filename == "memory_snapshot.pickle"
    assert parse(saved.value.path().read_bytes()).format is Format.SNAPSHOT
    assert any("/events" in request.url for request in opened.watch.requests)
    assert faults_of_access(page) == []
    page.goto("/measurements?device=trace")
    expect(table_of(page).locator("#table tbody tr").first).to_contain_text(tiny)


def test_a_waiting_job_is_cancelled_and_asked_again(
    visit: Visit, api: httpx.Client, tiny: str
) -> None:
    """Nobody measures on a GPU here: the page says so, cancels, and asks the same again."""
    asked = {
        "model": tiny,
        "workload": {"task": "train", "sequence_length": 64},
        "device": "cuda",
        "gpu": "H200",
    }
    job = api.post("/v1/measurements", json=asked).raise_for_status().json()["id"]
    page = visit("/measurements").page
    waiting = page.get_by_role("list", name="Measurements that run or wait").get_by_role("listitem")
    expect(waiting).to_contain_text(["waits for a worker on device cuda"])
    waiting.get_by_role("link", name=tiny).click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#status")).to_have_text("cancelled")

    page.get_by_role("button", name="Measure again").click()
    expect(page.locator("#status")).to_have_text("queued")
    assert job not in page.url
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#failure")).to_have_text("It was cancelled.")


def test_the_table_is_filtered_and_sorted(visit: Visit, imported: dict[int, str]) -> None:
    """Filters and order are the API's and stand in the address; what is unknown is refused beside
    its field.
    """
    page = visit("/measurements", tolerated=(422,)).page
    page.locator("#filter").get_by_label("Model").fill("llama-3.2-3b")
    page.keyboard.press("Enter")
    page.get_by_label("Order").select_option("worst first")
    rows = page.locator("#table tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.first.get_by_role("link")).to_have_attribute(
        "href", f"/measurements/{imported[1024]}"
    )
    expect(rows.first.locator(".is-bad")).to_have_text(["+20.00 %"])
    page.get_by_label("Off by").select_option("10 % or more")
    expect(rows).to_have_count(1)
    assert "error_at_least=0.1" in page.url

    page.reload()
    expect(rows).to_have_count(1)
    page.get_by_role("button", name="Show all").click()
    page.locator("#filter").get_by_label("GPU").fill("A1000000")
    page.keyboard.press("Enter")
    expect(page.locator("#filter .field-error")).to_be_visible()


def test_pages_follow_each_other(visit: Visit, api: httpx.Client) -> None:
    """A long list is read a page at a time, there and back."""
    add_jobs(api, model="llama-3.2-1b", num_jobs=25)
    page = table_of(visit("/measurements?model=llama-3.2-1b").page)
    expect(page.locator("#table tbody tr")).to_have_count(25)
    first = page.locator("#table tbody a").first.get_attribute("href")
    add_jobs(api, model="llama-3.2-1b", num_jobs=1)
    page.reload()

    page.get_by_role("button", name="Next").click()
    expect(page.locator("#table tbody tr")).to_have_count(1)
    expect(page.get_by_role("button", name="Next")).to_be_disabled()
    page.get_by_role("button", name="Previous").click()
    expect(page.locator("#table tbody tr")).to_have_count(25)
    expect(page.locator("#table tbody tr").nth(1).get_by_role("link")).to_have_attribute(
        "href", str(first)
    )


def test_predictions_stand_against_what_was_measured(visit: Visit) -> None:
    """The picture sums itself up, and a table beside it says the same; quantity, answer and kind of
    picture are chosen.
    """
    page = visit("/measurements?model=llama-3.2-3b").page
    rows = page.locator("#scatter tbody tr")
    expect(rows).to_have_count(3)
    expect(page.locator("#scatter-words")).to_contain_text(
        "3 readings of allocated bytes: median error 0.10 %, largest 20.00 %"
    )
    expect(rows.filter(has_text="1024")).to_contain_text("no")

    page.get_by_label("Of", exact=True).select_option("reserved")
    expect(page.locator("#scatter-words")).to_contain_text("reserved bytes")
    page.get_by_label("Show", exact=True).select_option("error")
    page.get_by_label("Answer").select_option("calibrated")
    assert "quantity=reserved" in page.url
    assert "plot=error" in page.url
    page.get_by_label("Of", exact=True).select_option("step time")
    expect(page.locator("#scatter-words")).to_contain_text("None of these measurements")


def test_an_import_is_shown_and_withdrawn(visit: Visit, api: httpx.Client) -> None:
    """What the file said, what was predicted, and taking it back."""
    made = add_reading(api, model="qwen2.5-7b", sequence_length=333, off_by=0.02, method="lora")
    page = visit(f"/measurements/{made}").page
    peaks = page.locator("#peaks tbody tr")
    expect(peaks.filter(has_text="Allocated")).to_contain_text("+2.000 %")
    expect(peaks.filter(has_text="Reserved")).to_be_visible()
    expect(page.locator("#context")).to_contain_text("570.86.15")

    page.get_by_role("button", name="Withdraw").click()
    expect(page.locator("#failure")).to_contain_text("It was withdrawn")
    assert api.get(f"/v1/measurements/{made}").json()["phase"] == "withdrawn"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_measurements_are_fit_for_everybody(
    visit: Visit, imported: dict[int, str], scheme: str
) -> None:
    """The axe checker finds no serious fault on the list and on one of them, and both fit on a
    phone.
    """
    page = table_of(visit("/measurements", scheme=scheme, width=360, height=740).page)
    page.get_by_text("Ask for a measurement").click()
    expect(page.locator("#scatter canvas")).to_be_visible()
    assert faults_of_access(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 360

    page.goto(f"/measurements/{imported[256]}")
    expect(page.locator("#peaks table")).to_be_visible()
    assert faults_of_access(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_measurements_can_be_taken_along(visit: Visit, imported: dict[int, str]) -> None:
    """As a table, as JSON, as a picture, and as a block for a ticket."""
    page = table_of(visit("/measurements?model=llama-3.2-3b").page)
    expect(page.locator("#scatter canvas")).to_be_visible()
    saved = {}
    for kind in ("CSV", "JSON", "PNG"):
        with page.expect_download() as download:
            page.get_by_role("button", name=kind).click()
        saved[kind] = download.value.path().read_bytes()

    assert len(saved["CSV"].splitlines()) == 4
    assert {row["id"] for row in json.loads(saved["JSON"])} == set(imported.values())
    assert saved["PNG"].startswith(b"\x89PNG")
    page.get_by_role("button", name="Copy Markdown").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert "llama-3.2-3b | train" in page.evaluate("navigator.clipboard.readText()")


def test_a_measurement_that_is_not_there_says_so(visit: Visit) -> None:
    """A wrong link is no empty page."""
    page = visit("/measurements/00000000-0000-0000-0000-000000000000", tolerated=(404,)).page

    expect(page.get_by_role("alert")).to_contain_text("There is no measurement")


def test_who_has_no_key_is_asked_once(visit: Visit) -> None:
    """A reader who declines sees why nothing is shown, and is not asked again each time the page
    would look.
    """
    problem = {
        "type": "unauthorized",
        "title": "No key",
        "status": 401,
        "detail": "this server lets in holders of keys",
    }
    opened = visit("/clusters", tolerated=(401,), fresh=True)
    page = opened.page
    page.clock.install()
    page.route("**/v1/**", lambda route: route.fulfill(status=401, json=problem))
    page.goto("/measurements")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#workers").get_by_role("alert")).to_contain_text("lets in holders of keys")
    expect(page.locator("#trouble").get_by_role("alert")).to_be_visible()

    asked = len(opened.watch.requests)
    page.clock.run_for(60_000)
    expect(page.locator("#key-dialog")).to_be_hidden()
    assert len(opened.watch.requests) == asked
