"""The page of all types, held to the rows that were measured."""

from service.catalog.models import list_recorded_models
from service.estimator.model.families.registry import list_model_types
from tests.accuracy.types.report import PAGE, render, summarize
from tests.accuracy.types.rows import read_rows

ROWS = read_rows()
SUMMARY = summarize(list(ROWS.values()))


def test_the_page_is_what_the_rows_say() -> None:
    """`python -m tests.accuracy.types --write` writes it."""
    page = PAGE.read_text(encoding="utf-8")

    assert page == render(list(ROWS.values()))
    assert f"class on the meta device for {SUMMARY.exact} ({SUMMARY.share:.1%})" in page


def test_parameters_are_exact_for_nearly_all_types() -> None:
    """Of those that transformers builds from their default config."""
    assert SUMMARY.share >= 0.95
    assert len(ROWS) >= 800


def test_recorded_steps_are_those_of_plain_passes() -> None:
    """At a size that made no recording."""
    errors = SUMMARY.errors

    assert errors[len(errors) // 2] <= 1e-6
    assert errors[-1] <= 0.005


def test_every_module_and_every_shipped_recording_has_a_row() -> None:
    """Written types by their own names, with their class."""
    named = {*list_model_types(), *(entry.model_type for entry in list_recorded_models())}

    assert named <= ROWS.keys()
    assert all(ROWS[name].model_class for name in named)
