"""Pages that programs write are what the programs write today."""

from deploy.release import field_reference
from deploy.release.cli_reference import PAGE, render_page
from deploy.release.memory_figure import FIGURE, QUESTION, render_figure
from tests.unit.docs.pages import read_page


def test_the_reference_is_that_of_the_parsers() -> None:
    """A flag that is added is on the page."""
    assert PAGE.read_text(encoding="utf-8") == render_page()


def test_the_fields_are_those_of_the_contract() -> None:
    """A field that is added is on the page, with its sentence."""
    page = field_reference.PAGE.read_text(encoding="utf-8")

    assert page == field_reference.render_page()


def test_the_figure_is_that_of_the_answer() -> None:
    """The picture of a step shows what its command prints."""
    assert FIGURE.read_text(encoding="utf-8") == render_figure()
    assert QUESTION in " ".join(read_page("docs/concepts.md").split())
