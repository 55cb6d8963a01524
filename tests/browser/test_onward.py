"""What the page asks first, what an answer leads to, and how it reads on a phone."""

import re

import httpx
from playwright.sync_api import expect

from tests.browser.conftest import Visit
from tests.browser.watching import faults_of_access

TOO_MUCH = "/?model=llama-3.1-8b&gpu=A100-SXM4-40GB&task=train&workload.sequence_length=2048"
SMALL = "/?model=llama-3.2-1b&gpu=H100-SXM5-80GB&task=train&workload.sequence_length=512"
PHONE = {"width": 390, "height": 844}
CLUSTER = {
    "name": "onward",
    "pools": [{"name": "p", "gpu": "H100-SXM5-80GB", "gpus_per_node": 8, "num_nodes": 1}],
}


def test_the_first_question_fits(visit: Visit) -> None:
    """Whoever comes without a question sees what a good answer looks like; serving is on vLLM."""
    page = visit("/", fresh=True).page
    expect(page.locator(".verdict-line")).to_contain_text("Fits")

    page.get_by_text("Serve", exact=True).click()

    expect(page.locator("[name='workload.engine']")).to_have_value("vllm")
    expect(page.locator(".verdict")).to_contain_text("serving on vllm")


def test_a_link_without_words_means_the_defaults(visit: Visit) -> None:
    """A question that names no method and no engine is that of the API."""
    page = visit(SMALL).page
    expect(page.locator(".verdict-line")).to_be_visible()

    expect(page.locator("[name='workload.method']")).to_have_value("")


def test_what_would_help_is_read_on_a_phone(visit: Visit) -> None:
    """Each remedy is a card: its verdict and what it saves are within the screen."""
    page = visit(TOO_MUCH, **PHONE).page
    remedies = page.locator("#remedies tbody tr")
    first = remedies.filter(has=page.get_by_role("button", name="Apply")).first

    for part in (first.locator(".tag"), first.locator("[data-label='Saves']")):
        expect(part).to_be_visible()
        box = part.bounding_box()
        assert box is not None
        assert 0 <= box["x"] <= box["x"] + box["width"] <= PHONE["width"]


def test_families_are_read_on_a_phone(visit: Visit) -> None:
    """Each is a card: what serves it is on the screen, and nothing is scrolled sideways."""
    page = visit("/models", **PHONE).page
    table = page.locator("#families .scroll")

    expect(table.locator("[data-label='Served on']").first).to_be_visible()
    assert table.evaluate("element => element.scrollWidth - element.clientWidth") == 0


def test_workers_are_read_on_a_phone(visit: Visit) -> None:
    """Each is a card, and what can be taken along stands in one line."""
    page = visit("/measurements", **PHONE).page
    table = page.get_by_role("region", name="Workers that are alive")
    heights = page.locator("#tools .export button").evaluate_all(
        "buttons => buttons.map((button) => button.getBoundingClientRect().top)"
    )

    expect(table.locator("[data-label='Last heartbeat']").first).to_be_visible()
    assert table.evaluate("element => element.scrollWidth - element.clientWidth") == 0
    assert len(set(heights)) == 1


def test_a_component_says_why(visit: Visit) -> None:
    """Beside its formula stands where that comes from."""
    page = visit(SMALL).page
    row = page.locator("#components tbody tr").filter(has_text="Device context")

    row.get_by_text("why").click()

    expect(row.locator("details")).to_have_attribute("open", "")
    assert len(row.locator("details").inner_text()) > len("why")


def test_an_unknown_type_is_told_once(visit: Visit) -> None:
    """The list of the known ones stands above, and beside the field no more than a line."""
    page = visit("/", tolerated=(422,), fresh=True).page
    expect(page.locator(".verdict-line")).to_be_visible()
    page.get_by_text("Paste a config.json").click()

    page.get_by_label("config.json", exact=True).fill('{"model_type": "nonesuch"}')

    expect(page.locator("#problem")).to_contain_text("nonesuch")
    note = page.locator("#model-box .field-error")
    expect(note).to_be_visible()
    assert len(note.inner_text()) < 250


def test_a_slider_doubles(visit: Visit) -> None:
    """Two steps double the number beside it, and that is what is asked."""
    page = visit(SMALL).page
    expect(page.locator(".verdict-line")).to_be_visible()
    slider = page.get_by_label("Sequence length, by doubling")

    slider.press("ArrowRight")
    slider.press("ArrowRight")

    expect(page.locator("[name='workload.sequence_length']")).to_have_value("1024")
    page.wait_for_url("**sequence_length=1024**")


def test_a_question_goes_to_the_cluster_that_is_stored(visit: Visit, base_url: str) -> None:
    """Where there is one, it is placed there at once."""
    page = visit(SMALL).page
    expect(page.locator(".verdict-line")).to_be_visible()
    expect(page.locator("#onward-left-out")).to_be_hidden()
    with httpx.Client(base_url=base_url) as client:
        assert client.post("/v1/clusters", json=CLUSTER).is_success
        try:
            page.get_by_role("button", name="On my cluster").click()
            page.wait_for_url(re.compile(r"/clusters.*model=llama-3\.2-1b"))
            # Beside other clusters one is chosen; alone it is gone to at once.
            page.goto(page.url.replace("/clusters?", "/clusters/onward?"))

            expect(page.locator("#plan-model")).to_have_value("llama-3.2-1b")
            expect(page.locator("#answer")).to_contain_text("H100-SXM5-80GB would run it now")
        finally:
            client.delete(f"/v1/clusters/{CLUSTER['name']}")


def test_a_question_is_measured_from_its_answer(visit: Visit) -> None:
    """Without a GPU a trace is asked for, and its page opens; no evaluation is run, which the page
    says.
    """
    page = visit(f"{SMALL}&workload.evaluation.batch_size=8").page
    expect(page.locator(".verdict-line")).to_be_visible()
    expect(page.locator(".onward")).to_contain_text("Measured without the evaluation")

    page.get_by_role("button", name="Measure this").click()

    page.wait_for_url("**/measurements/*-*")
    expect(page.locator("main")).to_contain_text("trace")


def test_models_are_looked_up_by_their_address(visit: Visit) -> None:
    """An address on the Hub is a name; families say what they are modelled for, in the dark too."""
    page = visit("/models", scheme="dark").page
    page.get_by_role("combobox").or_(page.get_by_label("Name, Hugging Face id")).first.fill(
        "https://huggingface.co/meta-llama/Llama-3.1-8B/tree/main"
    )
    page.get_by_role("button", name="Look up").click()

    expect(page.locator("#found h2")).to_have_text("llama-3.1-8b")
    expect(page.locator("#found")).to_contain_text("8.03")
    page.get_by_role("searchbox").fill("mixtral")
    expect(page.locator("#families tbody tr")).to_have_count(1)
    expect(page.locator("#families")).to_contain_text("vllm")
    assert faults_of_access(page) == []


def test_recorded_types_are_found_beside_families(visit: Visit) -> None:
    """A type that no family is written for leads to the model that its recording answers for."""
    page = visit("/models").page
    page.get_by_role("searchbox").fill("lfm2")
    others = page.locator("#families .recorded")
    expect(others).to_contain_text("further types")

    others.get_by_role("link", name="lfm2-default", exact=True).click()

    expect(page.locator("#found h2")).to_have_text("lfm2-default")
    expect(page.locator("#families .empty")).to_have_count(0)


def test_the_reference_is_read_in_the_light_and_on_a_phone(visit: Visit) -> None:
    """Words stand out from their ground; on a phone what is filled in has a name, and nothing is
    beyond the edge.
    """
    page = visit("/docs").page
    operation = page.locator("#operations-fit-fit")
    expect(operation).to_be_visible()
    assert faults_of_access(page, "color-contrast") == []

    page.set_viewport_size({"width": 390, "height": 800})
    operation.locator(".opblock-summary-control").click()
    expect(operation.locator(".body-param__text")).to_be_visible()

    rules = ("color-contrast", "label", "select-name")
    assert faults_of_access(page, *rules, within="#operations-fit-fit") == []
    assert operation.locator(".response-col_links:visible").count() == 0


def test_the_reference_is_dark_and_leads_back(visit: Visit) -> None:
    """It follows the theme that was chosen, and its head leads to the pages."""
    page = visit("/docs", scheme="dark").page
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")

    page.get_by_role("link", name="Headroom", exact=True).click()

    assert background == "rgb(15, 18, 22)"
    page.wait_for_url("**/")
