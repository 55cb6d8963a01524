"""The pages of clusters: what is free, what would fit now and where, reservations, and storing an
inventory.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit
from tests.browser.watching import faults_of_access

NAME = "prod-a"
POOLS = [
    {
        "name": "a100",
        "gpu": "A100-SXM4-80GB",
        "gpus_per_node": 8,
        "nvlink_island_size": 8,
        "price_per_gpu_hour": 1.8,
        "nodes": [
            {
                "name": "a01",
                "allocations": [{"holder": "team-nlp", "num_gpus": 3, "gpu_indices": [0, 1, 2]}],
            },
            {"name": "a02", "allocated_gpus": 8},
            {"name": "a03", "state": "drained"},
            {"name": "a04"},
        ],
    },
    {"name": "l40s", "gpu": "L40S", "gpus_per_node": 4, "num_nodes": 2},
]
PLAN = "?model=llama-2-7b&task=train&method=lora&sequence_length=2048&objective=fewest_gpus"


@pytest.fixture(scope="module")
def api(base_url: str) -> Iterator[httpx.Client]:
    """Return a client of the service that the pages are of."""
    with httpx.Client(base_url=base_url, timeout=120) as client:
        yield client


@pytest.fixture(scope="module", autouse=True)
def cluster(api: httpx.Client) -> None:
    """Store a cluster of two pools, with four GPUs reserved."""
    api.post("/v1/clusters", json={"name": NAME, "pools": POOLS}).raise_for_status()
    reservation = {
        "holder": "team-speech",
        "gpus": [{"pool": "a100", "node": "a04", "num_gpus": 4}],
        "expires_in_s": 3600,
    }
    api.post(f"/v1/clusters/{NAME}/reservations", json=reservation).raise_for_status()


def shown(page: Page) -> Page:
    """Return a page of one cluster once its pools are drawn."""
    expect(page.locator("canvas").first).to_be_visible()
    return page


def test_clusters_are_seen_at_a_glance(visit: Visit) -> None:
    """Each cluster says how much of it is free, pool by pool, and leads to its own page."""
    page = visit("/clusters").page
    card = page.locator("article", has=page.get_by_role("heading", name=NAME))

    expect(card).to_contain_text("17 of 40 GPUs free")
    expect(card.locator("li", has_text="L40S")).to_contain_text("8 / 8")
    card.get_by_role("link", name=NAME).click()
    expect(page.locator("h1")).to_have_text(NAME)


def test_a_pool_tells_what_each_gpu_is(visit: Visit) -> None:
    """The bar adds up, the table lists every node, and a click on a node says who holds it."""
    page = shown(visit(f"/clusters/{NAME}").page)
    pool = page.get_by_role("region", name="Pool a100", exact=True)
    expect(pool.locator(".state-bar")).to_have_attribute(
        "aria-label", "32 GPUs: 9 free, 11 used, 4 reserved, 8 drained"
    )

    pool.locator("canvas").click(position={"x": 4, "y": 20})
    expect(pool.locator(".picked")).to_contain_text("team-nlp holds 3")
    pool.get_by_text("Nodes as a table").click()
    pool.get_by_label("With a free GPU only").check()
    expect(pool.locator("tbody tr th")).to_have_text(["a01", "a04"])
    pool.get_by_role("searchbox").fill("04")
    expect(pool.locator("tbody tr")).to_contain_text(["team-speech (4)"])


def test_a_plan_is_shown_on_the_nodes_and_reserved(visit: Visit, api: httpx.Client) -> None:
    """The form asks, the answer says where, the address keeps the question, and a reservation takes
    what was shown.
    """
    opened = visit(f"/clusters/{NAME}")
    page = shown(opened.page)
    page.get_by_label("Model").fill("llama-2-7b")
    page.get_by_label("Method").select_option("lora")
    page.get_by_label("Sequence length").fill("2048")
    page.get_by_role("button", name="Place it").click()

    expect(page.locator(".verdict")).to_contain_text("would run it now")
    assert "model=llama-2-7b" in page.url
    assert opened.watch.asked("/v1/plans")[0]["cluster"] == NAME
    page.get_by_label("Reserve it for").fill("team-browser")
    page.get_by_role("button", name="Reserve ").click()
    row = page.locator("#reservations tr", has_text="team-browser")
    expect(row).to_be_visible()

    row.get_by_role("button", name="Release").click()
    expect(row).to_have_count(0)
    assert [
        one["holder"] for one in api.get(f"/v1/clusters/{NAME}/reservations").json()["items"]
    ] == ["team-speech"]


def test_a_link_opens_the_same_plan(visit: Visit) -> None:
    """Whoever gets the address sees the question and its answer; going back takes one there as
    well.
    """
    page = shown(visit(f"/clusters/{NAME}{PLAN}").page)
    expect(page.locator(".verdict")).to_contain_text("would run it now")
    expect(page.get_by_label("Model")).to_have_value("llama-2-7b")

    page.get_by_label("Sequence length").fill("1024")
    page.get_by_role("button", name="Place it").click()
    expect(page.locator("#answer td", has_text="1024").first).to_be_visible()
    page.go_back()
    expect(page.get_by_label("Sequence length")).to_have_value("2048")
    expect(page.locator("#answer td", has_text="2048").first).to_be_visible()


def test_a_plan_leads_to_its_memory(visit: Visit) -> None:
    """The first page opens with the very configuration of the plan, and answers the same bytes."""
    opened = visit(f"/clusters/{NAME}{PLAN}")
    page = shown(opened.page)
    per_gpu = page.locator("#answer tbody tr").first.locator("td").nth(3).inner_text()
    page.get_by_role("link", name="See its memory").click()

    expect(page.locator("#verdict")).to_contain_text(per_gpu)
    assert opened.watch.asked("/v1/fit")[0]["workload"]["sequence_length"] == 2048


def test_what_does_not_run_today_says_who_is_in_the_way(visit: Visit, api: httpx.Client) -> None:
    """Where the empty cluster could hold it, holders are named; what it could never hold says why
    not.
    """
    node = {"name": "b1", "allocations": [{"holder": "team-nlp", "num_gpus": 8}]}
    pool = {"name": "full", "gpu": "A100-SXM4-80GB", "gpus_per_node": 8, "nodes": [node]}
    api.post("/v1/clusters", json={"name": "busy", "pools": [pool]}).raise_for_status()
    page = shown(visit(f"/clusters/busy{PLAN}").page)

    expect(page.locator(".verdict.is-warn")).to_be_visible()
    expect(page.locator("#answer tr", has_text="team-nlp")).to_be_visible()
    page.goto("/clusters/busy?model=llama-2-70b&task=train&method=full&sequence_length=2048")
    expect(page.locator(".verdict.is-bad")).to_be_visible()
    expect(page.locator("#answer details[open]").first).to_be_visible()


def test_refusals_stand_beside_the_field(visit: Visit) -> None:
    """A model that nobody knows is marked, with the API's own words."""
    page = shown(visit(f"/clusters/{NAME}?model=lama-2-7b", tolerated=(422,)).page)

    expect(page.get_by_label("Model")).to_have_attribute("aria-invalid", "true")
    expect(page.locator(".field-error")).to_contain_text("Did you mean llama-2-7b")


def test_an_inventory_is_compared_before_it_is_stored(visit: Visit, api: httpx.Client) -> None:
    """What would change is listed; storing it replaces the whole cluster."""
    api.post("/v1/clusters", json={"name": "to-change", "pools": POOLS}).raise_for_status()
    page = shown(visit("/clusters/to-change").page)
    changed = json.loads(json.dumps(POOLS[:1]))
    changed[0]["nodes"][1]["allocated_gpus"] = 5
    page.get_by_text("Store an inventory").click()
    page.get_by_label("Inventory as JSON").fill(json.dumps({"pools": changed}))
    page.get_by_role("button", name="Show what would change").click()

    rows = page.locator("#editor tbody tr")
    expect(rows).to_have_text(["node a028 used, ready → 5 used, ready", "pool l40sremoved"])
    page.get_by_role("button", name="Replace to-change").click()
    expect(page.get_by_role("region", name="Pool l40s", exact=True)).to_have_count(0)
    assert [pool["name"] for pool in api.get("/v1/clusters/to-change").json()["pools"]] == ["a100"]


def test_thousands_of_nodes_are_drawn_in_one_picture(visit: Visit, api: httpx.Client) -> None:
    """Two thousand nodes make no elements of their own, and each can be found under the pointer and
    in the table.
    """
    nodes = [{"name": f"n{index:04}", "allocated_gpus": index % 9} for index in range(2000)]
    pool = {"name": "many", "gpu": "H100-SXM5-80GB", "gpus_per_node": 8, "nodes": nodes}
    api.post("/v1/clusters", json={"name": "large", "pools": [pool]}).raise_for_status()
    page = shown(visit("/clusters/large").page)

    assert page.locator("*").count() < 500
    box = page.locator("canvas").bounding_box()
    assert box is not None
    page.locator("canvas").hover(position={"x": 2, "y": 2})
    expect(page.locator(".tip")).to_have_text("n0000: 8 free")
    page.get_by_text("Nodes as a table").click()
    page.get_by_role("searchbox").fill("n1999")
    expect(page.locator("tbody tr th")).to_have_text(["n1999"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_cluster_is_fit_for_everybody(visit: Visit, scheme: str) -> None:
    """The axe checker finds no serious fault on a whole page with a plan, in either theme."""
    page = shown(visit(f"/clusters/{NAME}{PLAN}", scheme=scheme).page)
    expect(page.locator(".verdict")).to_be_visible()
    page.get_by_role("region", name="Pool a100", exact=True).get_by_text("Nodes as a table").click()

    assert faults_of_access(page) == []


def test_a_cluster_can_be_taken_along(visit: Visit) -> None:
    """As a table, as JSON, as a picture, and as a block for a ticket that has its link."""
    page = shown(visit(f"/clusters/{NAME}{PLAN}").page)
    expect(page.locator(".verdict")).to_be_visible()
    saved: dict[str, Any] = {}
    for kind in ("CSV", "JSON", "PNG"):
        with page.expect_download() as download:
            page.get_by_role("button", name=kind).click()
        saved[kind] = download.value.path().read_bytes()

    columns, first = saved["CSV"].splitlines()[:2]
    assert columns.endswith(b"drained,source,observed_at")
    assert first == b"a100,a01,ready,A100-SXM4-80GB,8,5,3,0,0,0,,"
    assert json.loads(saved["JSON"])["cluster"]["name"] == NAME
    assert saved["PNG"].startswith(b"\x89PNG")
    page.get_by_role("button", name="Copy Markdown").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert "would run it now" in copied
    assert page.url in copied


def test_a_cluster_fits_on_a_phone(visit: Visit) -> None:
    """Nothing is wider than a small screen."""
    page = shown(visit(f"/clusters/{NAME}{PLAN}", width=360, height=740).page)
    expect(page.locator(".verdict")).to_be_visible()

    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_cluster_that_is_not_there_says_so(visit: Visit) -> None:
    """A link to one that was removed is no empty page."""
    page = visit("/clusters/no-such", tolerated=(404,)).page

    expect(page.get_by_role("alert")).to_contain_text("There is no cluster")


def test_a_range_shows_what_is_free_then(visit: Visit) -> None:
    """The four GPUs that are reserved for an hour are free within a day, and the link says so."""
    page = shown(visit(f"/clusters/{NAME}").page)
    page.get_by_label("Shown as it is").select_option("24")

    expect(page.locator("#ahead-words")).to_have_text(
        "Within a day 1 reservation ends, and 4 more GPUs are free unless it is reserved anew."
    )
    expect(page.locator("#sum")).not_to_contain_text("reserved")
    expect(page).to_have_url(re.compile(r"within=24"))


def test_the_list_shows_clusters_of_a_range(visit: Visit) -> None:
    """One that was stored just now was updated in the last hour."""
    page = visit("/clusters?last=1").page

    expect(page.locator("#range-words")).to_contain_text("updated in the last hour.")
    expect(page.get_by_role("link", name=NAME)).to_be_visible()
