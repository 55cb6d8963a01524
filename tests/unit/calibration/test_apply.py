"""A stored calibration answers one question, and says whether that very question was measured."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.calibration.apply import corrections_at, from_document, point_of, to_document
from service.calibration.derive import Calibration, Exact, MeasuredPoint
from service.estimator.corrections import InstantCorrection
from service.estimator.families.registry import architecture_from_config
from service.estimator.layout import Layout
from service.estimator.workload import ServeWorkload, TrainWorkload

CONFIG = {
    "model_type": "gpt2",
    "vocab_size": 1000,
    "n_embd": 64,
    "n_layer": 3,
    "n_head": 4,
    "n_positions": 512,
}
POINT = MeasuredPoint(num_layers=3, micro_batch_size=2, sequence_length=128)
CALIBRATION = Calibration(
    instants={"backward": InstantCorrection(fixed_bytes=10, bytes_per_token=1.5)},
    relative_error=0.02,
    evidence=("a", "b"),
    exact=(Exact(point=POINT, residuals={"backward": 7}),),
    rejected=("c",),
)


def test_another_size_is_calibrated() -> None:
    """A question beside the measured ones gets the curve and the doubt."""
    found = corrections_at(CALIBRATION, replace(POINT, sequence_length=4096), calibration_id="id")

    assert (found.basis, found.calibration, found.relative_error) == ("calibrated", "id", 0.02)
    assert found.instants == CALIBRATION.instants


@pytest.mark.parametrize("change", [{"num_layers": 2}, {"micro_batch_size": 1}, {"output_tokens": 1}, {"num_gpus": 2}])
def test_measured_means_this_very_configuration(change: dict[str, int]) -> None:
    """One number that differs and it is another configuration."""
    assert corrections_at(CALIBRATION, replace(POINT, **change), calibration_id="id").basis == "calibrated"


def test_the_measured_size_answers_with_its_own_residual() -> None:
    """Where it was measured the answer is what was measured, whatever the curve says."""
    found = corrections_at(CALIBRATION, POINT, calibration_id="id")

    assert (found.basis, found.instants) == ("measured", {"backward": InstantCorrection(fixed_bytes=7)})


def test_questions_lie_on_the_curve_by_their_numbers() -> None:
    """A point is read from the question: depth, batch, lengths, GPUs."""
    model = architecture_from_config(CONFIG)
    train = TrainWorkload(sequence_length=128, micro_batch_size=2)
    serve = ServeWorkload(num_sequences=4, prompt_tokens=100, output_tokens=28)

    assert point_of(model, train, Layout()) == POINT
    assert point_of(model, serve, Layout()).num_tokens == 4 * 128


@given(
    fixed=st.integers(-(2**50), 2**50),
    slope=st.floats(allow_nan=False, allow_infinity=False, width=32),
    error=st.floats(0, 1),
)
def test_documents_are_read_as_they_were_written(fixed: int, slope: float, error: float) -> None:
    """Storage changes nothing."""
    correction = InstantCorrection(fixed_bytes=fixed, bytes_per_token=slope)
    calibration = replace(CALIBRATION, instants={"loss": correction}, relative_error=error)

    assert from_document(json.loads(json.dumps(to_document(calibration)))) == calibration
