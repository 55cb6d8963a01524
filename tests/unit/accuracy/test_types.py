"""The page of all types, held to the rows that were measured."""

from pathlib import Path

import pytest

from service.catalog.models import list_recorded_models
from service.catalog.recorded_models import read_packed_recording
from service.estimator.model.families.registry import list_model_types
from service.usecases.recordings.documents import unpack_document
from tests.accuracy.types.report import PAGE, render, summarize
from tests.accuracy.types.rows import read_rows
from tests.accuracy.types.shipping import Proof, Steps, ship
from tests.accuracy.types.subjects import find_subject

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


def test_recorded_steps_leave_the_gradients_of_plain_ones() -> None:
    """A backward that breaks off misses some, which a large step's peak does not show."""
    rows = [row for row in ROWS.values() if row.error is not None and not row.shallow]

    assert all(row.gradients for row in rows)
    assert [row.model_type for row in rows if len(set(row.gradients)) > 1] == []


@pytest.mark.parametrize(
    ("large", "gradients", "name"),
    [(10_000, 500, "ernie-default"), (10_002, 500, None), (10_000, 499, None)],
)
def test_a_recording_ships_as_plain_steps_of_all_layers_prove_it(
    large: int, gradients: int, name: str | None, tmp_path: Path
) -> None:
    """What the recorder compared is a pass of few layers, which peaks elsewhere."""
    steps = Steps(large=(10_000, large), small=(900, 900), gradients=(500, gradients))
    document = unpack_document(read_packed_recording("ernie-default"))

    subject = find_subject("ernie")

    proof = ship(document, subject, lambda _model, _config: steps, tmp_path)

    files = [f"{name}.json", f"{name}.json.gz", "index.json"] if name else []
    assert proof == Proof(name=name, steps=steps)
    assert sorted(path.name for path in tmp_path.iterdir()) == files
