"""A stored calibration answers one question, and says whether that very question was measured."""

import json
from dataclasses import replace
from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.calibration.apply import (
    ONLY_PART,
    KnownCalibration,
    build_corrections,
    get_point,
)
from service.calibration.curve import Curve
from service.calibration.derive import Bound, Calibration, Exact, LeaveOneOut
from service.calibration.document import from_document, to_document
from service.calibration.evidence import (
    EXACT_SHARE,
    RESERVED_SPREAD,
    SEGMENT_STEP_BYTES,
    MeasuredPoint,
    Quantity,
)
from service.calibration.pool import Group, Level, Pool
from service.calibration.shrinkage import Mean
from service.calibration.sift import RejectedMeasurement
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.values.corrections import Corrections, InstantCorrection
from service.estimator.values.layout import Layout
from service.estimator.values.workload import ServeWorkload, TrainWorkload
from tests.unit.calibration.builders import BASE, GB, evidence, taught

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
    curves={"backward": Curve(fixed=10, per_token=1.5, per_layer_token=0.5)},
    shares={"loss": 0.01},
    relative_error=0.02,
    evidence=("a", "b"),
    exact=(Exact(point=POINT, residuals={"backward": 7}),),
    at_least=(Bound(measurement="o", point=replace(POINT, sequence_length=4096), bytes=10**9),),
    at_most=(Bound(measurement="s", point=replace(POINT, sequence_length=8192), bytes=10**10),),
    rejected=(RejectedMeasurement(measurement="c", reason="memory would fall"),),
    means={"backward": Mean(value=0.1, variance=0.01, count=2)},
    left_out=(
        LeaveOneOut(measurement="a", before=0.1, alike=0.1, after=0.0, answer=5, alone=False),
    ),
)
GROUP = Group(quantity=Quantity.ALLOCATED, kind="training", environment="torch", family="llama")


def of(quantity: Quantity) -> Calibration:
    """Return a calibration of a quantity without instants."""
    return replace(
        CALIBRATION, quantity=quantity, curves={ONLY_PART: Curve(fixed=0.1)}, shares={}, exact=()
    )


def correct_point(
    calibration: Calibration,
    point: MeasuredPoint,
    *,
    calibration_id: str,
    half_width: float | None = None,
) -> Corrections:
    """Return the corrections of one calibration for one point."""
    source = KnownCalibration(name=calibration_id, calibration=calibration, half_width=half_width)
    return build_corrections([source], point)


def test_another_size_is_calibrated() -> None:
    """A question beside the measured ones gets the curve, what its family shows, and the doubt."""
    found = correct_point(CALIBRATION, replace(POINT, sequence_length=256), calibration_id="id")

    assert (found.basis, found.level, found.calibration) == ("calibrated", "key", "id")
    assert (found.relative_error, found.num_measurements, found.conformal) == (0.02, 2, False)
    assert found.instants == {
        "backward": InstantCorrection(fixed_bytes=10 + round(2 * 512 * 1.5)),
        "loss": InstantCorrection(share=0.01),
    }


@pytest.mark.parametrize(
    "change", [{"num_layers": 2}, {"micro_batch_size": 1}, {"output_tokens": 1}, {"num_gpus": 2}]
)
def test_measured_means_this_very_configuration(change: dict[str, int]) -> None:
    """One number that differs and it is another configuration."""
    assert (
        correct_point(CALIBRATION, replace(POINT, **change), calibration_id="id").basis
        == "calibrated"
    )


def test_the_measured_size_answers_with_its_own_residual() -> None:
    """Where it was measured the answer is what was measured, whatever the curve and the family
    say.
    """
    found = correct_point(CALIBRATION, POINT, calibration_id="id", half_width=0.1)

    assert (found.basis, found.level, found.relative_error) == ("measured", "point", EXACT_SHARE)
    assert found.instants == {"backward": InstantCorrection(fixed_bytes=7)}


def test_widths_that_were_measured_stand_alone() -> None:
    """Once enough measurements were held out, their width counts and not the key's own doubt."""
    found = correct_point(
        CALIBRATION, replace(POINT, num_layers=2), calibration_id="id", half_width=0.005
    )

    assert (found.relative_error, found.conformal) == (0.005, True)


@pytest.mark.parametrize(
    ("length", "least", "most"), [(128, 0, 10**10), (4096, 10**9, 10**10), (16_384, 10**9, None)]
)
def test_bounds_hold_on_their_side(length: int, least: int, most: int | None) -> None:
    """Who ran out of memory needed that much at that size and beyond; who made do with it needs no
    more at smaller ones.
    """
    point = replace(POINT, sequence_length=length)

    allocated = correct_point(CALIBRATION, point, calibration_id="id")
    reserved = correct_point(of(Quantity.RESERVED), point, calibration_id="id")

    assert (allocated.at_least_bytes, reserved.reserved_at_most_bytes) == (least, most)


def test_quantities_are_put_together() -> None:
    """One answer rests on what was learnt of each quantity, and names the calibration of the
    allocated bytes.
    """
    point = replace(POINT, num_layers=2)
    known = [
        KnownCalibration(name=quantity.value, calibration=of(quantity))
        for quantity in Quantity
        if quantity is not Quantity.ALLOCATED
    ]
    known.append(KnownCalibration(name="allocated", calibration=CALIBRATION))

    found = build_corrections(known, point)

    assert (found.calibration, found.relative_error) == ("allocated", 0.02)
    assert found.step_time_ratio == pytest.approx(exp(0.1))
    assert (found.reserved_error, found.outside_error) == (None, None)


def test_time_alone_leaves_the_bytes_as_they_are() -> None:
    """Where only steps were timed, the interval of the bytes is the analytic one."""
    found = correct_point(of(Quantity.STEP_TIME), POINT, calibration_id="t")

    assert (found.relative_error, dict(found.instants)) == (None, {})


def test_a_reserved_reading_may_differ_the_next_time() -> None:
    """The same request reserves other bytes after another history, which nobody vouches for where
    it was imported.
    """
    imported = Exact(point=POINT, residuals={ONLY_PART: 5}, claimed=True)
    measured = replace(of(Quantity.RESERVED), exact=(imported,))

    assert correct_point(measured, POINT, calibration_id="id").reserved_error == RESERVED_SPREAD


def test_reserved_bytes_of_a_measured_point_are_those_that_were_measured() -> None:
    """A probe makes the history of its requests itself: its reading holds to a segment, and what it
    is off by is so at other sizes too.
    """
    sample = replace(evidence(256, residual=BASE // 50), quantity=Quantity.RESERVED)
    sample = replace(sample, measured={ONLY_PART: BASE + BASE // 50}, predicted={ONLY_PART: BASE})

    found = correct_point(taught(sample), sample.point, calibration_id="id")
    elsewhere = correct_point(
        taught(sample), replace(sample.point, sequence_length=512), calibration_id="id"
    )

    assert found.reserved.fixed_bytes == BASE // 50
    assert found.reserved_error == pytest.approx(
        SEGMENT_STEP_BYTES / (BASE + BASE // 50), abs=EXACT_SHARE
    )
    assert elsewhere.reserved.fixed_bytes == pytest.approx(BASE // 50, rel=0.02)


@pytest.mark.parametrize("claimed", [True, False])
def test_what_was_imported_is_counted_and_proves_nothing(*, claimed: bool) -> None:
    """A probe says itself what it ran; of an import somebody says so, with the doubt that answers
    of its kind have.
    """
    sample = replace(evidence(256, residual=GB), claimed=claimed, spread=0.03)

    found = correct_point(taught(sample), sample.point, calibration_id="id")

    assert (found.basis, found.proven, found.num_imported) == (
        "calibrated" if claimed else "measured",
        not claimed,
        int(claimed),
    )
    assert found.relative_error == (0.03 if claimed else EXACT_SHARE)


@pytest.mark.parametrize(("half_width", "error"), [(None, 0.02), (0.05, 0.05)])
def test_a_family_answers_for_its_members(half_width: float | None, error: float) -> None:
    """A key without measurements is corrected by shares, and doubts them until enough was held
    out.
    """
    pool = Pool(
        group=GROUP,
        level=Level.FAMILY,
        shares={"backward": 0.02},
        num_keys=3,
        num_measurements=7,
        half_width=half_width,
    )

    found = build_corrections([pool], POINT)

    assert (found.level, found.num_measurements, found.relative_error) == ("family", 7, error)
    assert found.instants["backward"].compute_bytes(0, 1000) == 20


@pytest.mark.parametrize("quantity", [Quantity.RESERVED, Quantity.DEVICE, Quantity.STEP_TIME])
def test_a_family_corrects_each_quantity_by_its_own(quantity: Quantity) -> None:
    """Shares of what is reserved, of what lies outside, and logarithms of times."""
    group = replace(GROUP, quantity=quantity)
    pool = Pool(
        group=group, level=Level.GLOBAL, shares={ONLY_PART: 0.1}, num_keys=2, num_measurements=2
    )

    found = build_corrections([pool], POINT)

    blank = Corrections(calibration=found.calibration, level="global", num_measurements=2)
    changed = {
        name
        for name in ("reserved", "outside", "step_time_ratio")
        if getattr(found, name) != getattr(blank, name)
    }
    assert changed == {
        {"reserved": "reserved", "device": "outside", "step_time": "step_time_ratio"}[
            quantity.value
        ],
    }


def test_questions_lie_on_the_curve_by_their_numbers() -> None:
    """A point is read from the question: depth, batch, lengths, GPUs."""
    model = architecture_from_config(CONFIG)
    train = TrainWorkload(sequence_length=128, micro_batch_size=2)
    serve = ServeWorkload(num_sequences=4, prompt_tokens=100, output_tokens=28)

    assert get_point(model, train, Layout()) == POINT
    assert get_point(model, serve, Layout()).num_tokens == 4 * 128


@given(
    fixed=st.floats(allow_nan=False, allow_infinity=False),
    slope=st.floats(allow_nan=False, allow_infinity=False, width=32),
    error=st.floats(0, 1),
    quantity=st.sampled_from(Quantity),
)
def test_documents_are_read_as_they_were_written(
    fixed: float, slope: float, error: float, quantity: Quantity
) -> None:
    """Storage changes nothing."""
    curves = {"loss": Curve(fixed=fixed, per_token=slope)}
    calibration = replace(CALIBRATION, curves=curves, relative_error=error, quantity=quantity)

    assert from_document(json.loads(json.dumps(to_document(calibration)))) == calibration
