"""The job that is asked about, as a scheduler's client reads it."""

from playwright.sync_api import expect

from tests.browser.conftest import Visit

SMALL = "/?model=llama-3.2-1b&gpu=L40S&task=train&workload.method=lora&workload.sequence_length=512"
TITLE = "The same job for a scheduler"


def test_a_job_is_shown_in_the_format_that_is_chosen(visit: Visit) -> None:
    """Nothing is asked before it is looked at; the image goes along."""
    page = visit(SMALL).page
    expect(page.locator(".verdict-line")).to_be_visible()
    page.get_by_text(TITLE).click()
    expect(page.locator("#job pre")).to_contain_text("kind: Job")

    page.locator("#job-image").fill("registry.example/mine:7")
    page.locator("#job-format").select_option("hami")

    expect(page.locator("#job pre")).to_contain_text("nvidia.com/gpumem")
    expect(page.locator("#job pre")).to_contain_text("image: registry.example/mine:7")
    expect(page.locator("#job").get_by_role("button", name="Copy")).to_be_visible()


def test_the_job_follows_the_question(visit: Visit) -> None:
    """Another GPU is another job."""
    page = visit(SMALL).page
    expect(page.locator(".verdict-line")).to_be_visible()
    page.get_by_text(TITLE).click()
    expect(page.locator("#job pre")).to_contain_text("NVIDIA-L40S")

    page.locator("#gpu").fill("H100-SXM5-80GB")
    page.locator("#gpu").press("Enter")

    expect(page.locator("#job pre")).to_contain_text("NVIDIA-H100-80GB-HBM3")


def test_a_format_that_cannot_carry_it_says_why(visit: Visit) -> None:
    """One pod is no gang."""
    page = visit(SMALL).page
    expect(page.locator(".verdict-line")).to_be_visible()
    page.get_by_text(TITLE).click()

    page.locator("#job-format").select_option("podgroup")

    expect(page.locator("#job")).to_contain_text("is a gang of pods")
    expect(page.locator("#job pre")).to_have_count(0)
