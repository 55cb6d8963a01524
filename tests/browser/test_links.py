"""Addresses that somebody shortened, mistyped or goes back to: a page says what it makes of
each.
"""

import csv
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Route, expect

from tests.browser.conftest import Visit
from tests.browser.imports import add_reading
from tests.waiting import eventually


@pytest.fixture(scope="module")
def imported(base_url: str) -> Iterator[str]:
    """Store a measurement that has peaks and no samples; return its id."""
    with httpx.Client(base_url=base_url, timeout=120) as client:
        yield add_reading(client, model="qwen3-0.6b", sequence_length=256, off_by=0.001)


@pytest.mark.parametrize("path", ["/clusters/%E0%A4%A", "/measurements/%ff"])
def test_a_name_that_is_no_text_is_not_found(visit: Visit, path: str) -> None:
    """Bytes that are no UTF-8 are no name of anything, and are told to be none."""
    page = visit(path, tolerated=(404, 422)).page

    expect(page.locator("#trouble [role=alert]")).to_be_visible()


def test_a_view_that_there_is_not_is_told(visit: Visit, imported: str) -> None:
    """An unknown quantity shows the usual one, and says so."""
    page = visit("/measurements?quantity=evil&model=qwen3-0.6b").page

    expect(page.locator("#scatter-words")).to_contain_text(
        "There is no quantity “evil”: this is allocated"
    )
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


def test_a_page_that_was_cut_off_says_so_only_as_long_as_it_is(visit: Visit, base_url: str) -> None:
    """What a look now and then could not reach is taken back by the next that does."""
    pool = {"name": "p", "gpu": "L40S", "gpus_per_node": 4, "num_nodes": 1}
    httpx.post(
        f"{base_url}/v1/clusters", json={"name": "cut-off", "pools": [pool]}, timeout=120
    ).raise_for_status()
    page = visit("/clusters/cut-off", tolerated=(503,)).page
    expect(page.locator("canvas")).to_be_visible()
    look = "document.dispatchEvent(new Event('visibilitychange'))"
    page.route(
        "**/v1/clusters/cut-off",
        lambda route: route.fulfill(status=503, json={"title": "Away", "detail": "away"}),
    )
    page.evaluate(look)
    expect(page.locator("#trouble [role=alert]")).to_be_visible()
    page.unroute("**/v1/clusters/cut-off")
    page.evaluate(look)

    expect(page.locator("#trouble")).to_be_hidden()


def test_a_stream_that_is_refused_for_now_is_taken_up_again(visit: Visit) -> None:
    """A limit and a server that is away pass, so following goes on; a refusal that stays ends
    it.
    """
    page = visit("/accuracy", tolerated=(429, 404)).page
    statuses = [429, 0, 404]
    seen: list[int] = []

    def answer(route: Route) -> None:
        seen.append(statuses[len(seen)])
        if seen[-1] == 0:
            route.abort("aborted")
        else:
            route.fulfill(status=seen[-1], json={"title": "No"}, headers={"retry-after": "0"})

    page.route("**/v1/measurements/x/events", answer)
    # Its pauses are seconds, which say nothing here.
    follow = """async () => {
      const pause = window.setTimeout;
      window.setTimeout = (f, _, ...values) => pause(f, 0, ...values);
      const root = document.querySelector("script[type=module]").src.replace(/js\\/.*/, "js/");
      const { follow } = await import(root + "api.js");
      const signal = new AbortController().signal;
      return follow("/v1/measurements/x/events", { onEvent: () => true, signal }).catch((error) => error.status);
    }"""  # noqa: E501

    assert page.evaluate(follow) == 404
    assert seen == statuses


def test_a_model_that_is_named_takes_the_place_of_a_pasted_config(visit: Visit) -> None:
    """The last that was said is the question, in the address too."""
    opened = visit("/?workload.sequence_length=512&config=%7B%22model_type%22%3A%22gpt2%22%7D")
    page = opened.page
    expect(page.locator(".verdict-text")).to_contain_text("your gpt2")
    expect(page.locator("#pasted-note")).to_be_visible()
    page.get_by_role("combobox", name="Model").fill("qwen3-0.6b")

    expect(page.locator("#pasted-note")).to_be_hidden()
    expect(page.locator(".verdict-text")).to_contain_text("qwen3-0.6b")
    assert "config=" not in page.url


def test_the_link_of_a_hooks_line_shows_its_question(visit: Visit, base_url: str) -> None:
    """Every word of it, and from then on the address holds the question itself."""
    job = {
        "options": {"gres": "gres/gpu:nvidia_a100-sxm4-80gb:1", "job-name": "linked"},
        "script": "#HEADROOM qwen3-0.6b --task train --sequence-length 768 --optimizer sgd\n",
    }
    with httpx.Client(base_url=base_url, timeout=120) as client:
        assert client.post("/v1/hooks/slurm", json=job).status_code == 200
        path = "/v1/hooks/decisions?door=slurm&limit=1"
        eventually(lambda: bool(client.get(path).json()["items"]))
        [decision] = client.get(path).json()["items"]
    page = visit(f"/questions/{decision['question']}").page

    expect(page.locator(".verdict-text")).to_contain_text("qwen3-0.6b")
    expect(page.locator("#gpu")).to_have_value("A100-SXM4-80GB")
    page.wait_for_url("**/?*workload.sequence_length=768*")
    assert "workload.optimizer=sgd" in page.url


def test_a_link_to_a_question_that_is_gone_says_so(visit: Visit) -> None:
    """As much as is known: nobody asked it, or it was deleted."""
    page = visit(f"/questions/{'0' * 32}", tolerated=(404,)).page

    expect(page.locator("#problem")).to_contain_text("no hook was asked it")
