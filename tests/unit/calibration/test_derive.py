"""Corrections are additive, shrink to the analytic answer, and improve on the evidence or stay
away.
"""

from dataclasses import replace
from itertools import pairwise
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.calibration.curve import Curve
from service.calibration.derive import Calibration, Prior, calibrate
from service.calibration.evidence import EXACT_SHARE, Evidence, Quantity, tolerance
from tests.unit.calibration.builders import BASE, GB, at, error_on, evidence, taught


@given(share=st.floats(min_value=-EXACT_SHARE / 2, max_value=EXACT_SHARE / 2))
def test_an_exact_answer_stays_what_it_is(share: float) -> None:
    """A residual within rounding corrects nothing, and the measurement is named all the same."""
    calibration = taught(evidence(residual=round(BASE * share)))

    assert not calibration.curves
    assert calibration.evidence == ("m1",)
    assert calibration.relative_error == pytest.approx(EXACT_SHARE)


def test_allocator_rounding_is_no_error() -> None:
    """Half a kilobyte of a tiny answer is one rounded block."""
    assert not taught(evidence(predicted=10_000, residual=512)).curves


@given(residual=st.integers(min_value=-BASE // 2, max_value=BASE))
def test_one_measurement_fixes_the_intercept(residual: int) -> None:
    """After one sample the corrected answer is what was measured there, up to what means nothing;
    it says nothing of slopes.
    """
    sample = evidence(residual=residual)

    calibration = taught(sample)

    assert abs(error_on(calibration, sample)) <= tolerance(sample.measured["backward"])
    assert all(
        (curve.per_token, curve.per_layer, curve.per_layer_token) == (0, 0, 0)
        for curve in calibration.curves.values()
    )


@given(
    fixed=st.integers(-GB, GB),
    per_token=st.integers(1_000_000, 2_000_000),
    num_tokens=st.integers(1, 10_000),
)
def test_a_line_is_found(fixed: int, per_token: int, num_tokens: int) -> None:
    """Two sizes give intercept and slope, and with them any third size of the same line, to a
    thousandth of the answer.
    """
    few, many = (evidence(size, residual=fixed + per_token * size) for size in (256, 4096))

    curve = taught(few, many).curves["backward"]

    assert curve.at(at(num_tokens)) == pytest.approx(
        fixed + per_token * num_tokens, abs=BASE * EXACT_SHARE
    )


@given(
    per_layer_token=st.integers(100_000, 1_000_000),
    layers=st.integers(1, 80),
    tokens=st.integers(1, 8192),
)
def test_what_each_layer_keeps_of_each_token_is_found(
    per_layer_token: int, layers: int, tokens: int
) -> None:
    """Four runs at two depths and two sizes tell of any depth and size."""
    samples = [
        evidence(
            size, residual=per_layer_token * size * depth, num_layers=depth, name=f"{size} {depth}"
        )
        for size in (256, 1024)
        for depth in (2, 4)
    ]

    found = taught(*samples).curves["backward"].at(at(tokens, layers))

    assert found == pytest.approx(per_layer_token * tokens * layers, rel=0.02, abs=BASE * 0.05)


@given(residuals=st.lists(st.integers(-BASE // 2, BASE // 2), min_size=1, max_size=6))
def test_a_correction_never_makes_its_evidence_worse(residuals: list[int]) -> None:
    """Whatever was measured, what is left of it is at most what the analytic answer left, root mean
    square.
    """
    samples = [
        evidence(
            256 * (index + 1), residual=residual, predicted=BASE * (index + 1), name=f"m{index}"
        )
        for index, residual in enumerate(residuals)
    ]
    calibration = taught(*samples)
    kept = [sample for sample in samples if sample.measurement in calibration.evidence]

    def left(errors: list[float]) -> float:
        return sqrt(
            sum(
                (error / one.doubt("backward")) ** 2
                for error, one in zip(errors, kept, strict=True)
            ),
        )

    before = left([sample.residual("backward") for sample in kept])
    assert left([error_on(calibration, sample) for sample in kept]) <= before * (1 + 1e-9)


@given(residuals=st.lists(st.integers(0, BASE), min_size=1, max_size=6))
def test_nothing_is_added_beyond_what_was_seen(residuals: list[int]) -> None:
    """Samples of one size are corrected by at most the largest of them: never by their sum."""
    samples = [
        evidence(residual=residual, name=f"m{index}") for index, residual in enumerate(residuals)
    ]
    curve = taught(*samples).curves.get("backward", Curve())

    assert -1 <= curve.at(at(256)) <= max(residuals) + 1


@given(
    residuals=st.lists(st.integers(-BASE // 4, BASE // 2), min_size=2, max_size=6),
    order=st.randoms(use_true_random=False),
)
def test_the_order_of_the_evidence_does_not_matter(residuals: list[int], order: object) -> None:
    """The same measurements teach the same, whichever came first."""
    samples = [
        evidence(256 * (1 + index // 2), residual=residual, name=f"m{index}")
        for index, residual in enumerate(residuals)
    ]
    shuffled = list(samples)
    order.shuffle(shuffled)  # type: ignore[attr-defined]  # Hypothesis gives a random.Random

    assert calibrate(shuffled) == calibrate(samples)


@given(
    count=st.integers(2, 6),
    per_token=st.integers(200_000, 2_000_000),
    noise=st.lists(st.floats(-1, 1), min_size=7, max_size=7),
)
def test_more_evidence_does_not_widen_the_error(
    count: int, per_token: int, noise: list[float]
) -> None:
    """On a curve that is what it seems, each further measurement leaves no more at a size that was
    not measured than noise.
    """
    samples = [
        evidence(
            512 * (index + 1),
            residual=round(per_token * 512 * (index + 1) + BASE * EXACT_SHARE * noise[index] / 4),
            name=f"{index}",
        )
        for index in range(count)
    ]
    held = evidence(4096, residual=per_token * 4096, name="held")
    errors = [abs(error_on(taught(*samples[:number]), held)) for number in range(1, count + 1)]

    # Two sizes beside each other say little of one that is far: their noise grows with the
    # distance.
    allowed = BASE * EXACT_SHARE * 8
    assert all(later <= max(earlier, allowed) for earlier, later in pairwise(errors))
    assert errors[-1] <= errors[0]


def test_many_measurements_move_what_one_hardly_does() -> None:
    """A residual no larger than the doubt is believed once it has been seen often."""
    residual, parent = (
        round(BASE * EXACT_SHARE * 0.8),
        Prior(between={"backward": (EXACT_SHARE / 2) ** 2}),
    )
    moved = []
    for number in (1, 4, 16):
        calibration = calibrate(
            [evidence(residual=residual, name=f"m{index}") for index in range(number)], parent
        )
        assert calibration is not None
        moved.append(calibration.curves["backward"].at(at(256)) / residual)

    assert moved[0] < 0.25
    assert moved == sorted(moved)
    assert moved[-1] > 0.75


def test_a_key_shrinks_towards_keys_like_it() -> None:
    """What a family shows is added where a key says the same, and is not counted twice."""
    parent = Prior(shares={"backward": 0.1})

    agreeing = calibrate([evidence(residual=GB)], parent)

    assert agreeing is not None
    assert (agreeing.curves, agreeing.shares) == ({}, {"backward": 0.1})


def test_one_measurement_doubts_itself_elsewhere() -> None:
    """From one sample a correction may be wrong by its whole size at another."""
    calibration = taught(evidence(residual=GB))

    assert calibration.relative_error == pytest.approx(GB / (BASE + GB))


def test_agreeing_measurements_narrow_the_doubt() -> None:
    """Two sizes that each tell of the other leave nothing but the tolerance."""
    samples = [
        evidence(size, residual=GB, predicted=BASE * size, name=str(size)) for size in (256, 512)
    ]

    assert taught(*samples).relative_error == pytest.approx(EXACT_SHARE)


def test_instants_are_corrected_one_by_one() -> None:
    """An error of backward says nothing about the optimizer step."""
    sample = replace(
        evidence(residual=GB),
        measured={"backward": BASE + GB, "optimizer_step": BASE},
        predicted={"backward": BASE, "optimizer_step": BASE},
    )

    assert set(taught(sample).curves) == {"backward"}


def test_slices_are_no_measurement_of_the_model_itself() -> None:
    """Only a model that was run at its own depth counts as measured."""
    own, sliced = (
        evidence(256, name="own"),
        replace(evidence(512, name="sliced"), extrapolated=True),
    )

    calibration = taught(own, sliced)

    assert [exact.point for exact in calibration.exact] == [own.point]


def test_a_point_that_was_measured_again_is_the_mean_of_both() -> None:
    """Two runs of one size weigh alike, whichever came first."""
    samples = [
        replace(evidence(residual=residual, name=f"{residual}"), spread=0.1)
        for residual in (GB, 2 * GB)
    ]

    (exact,) = taught(*samples).exact

    assert exact.residuals == {"backward": 1.5 * GB}


def test_each_measurement_is_held_against_the_others() -> None:
    """Left out, a measurement is answered by what the others of its key taught; alone, by the
    analytic answer.
    """
    alone = taught(evidence(residual=GB)).left_out
    first, second = taught(
        *(evidence(size, residual=GB, name=str(size)) for size in (256, 512))
    ).left_out

    (only,) = alone
    assert only.alone
    assert only.before == only.after == pytest.approx(0.1)
    assert not first.alone
    assert first.before == second.before == pytest.approx(0.1)
    assert first.after == pytest.approx(0, abs=EXACT_SHARE)
    assert second.after == pytest.approx(0, abs=EXACT_SHARE)


def test_times_are_corrected_by_a_factor() -> None:
    """A step that takes half as long again does so at every size, whatever its seconds are."""
    samples = [
        Evidence(
            measurement=f"{size}",
            quantity=Quantity.STEP_TIME,
            point=at(size),
            measured={"all": size * 1_500_000},
            predicted={"all": size * 1_000_000},
            noise=0.01,
        )
        for size in (256, 512, 1024)
    ]

    curve = taught(*samples).curves["all"]

    assert curve.at(at(4096)) == pytest.approx(0.405, abs=0.001)


def test_calibrations_know_their_quantity() -> None:
    """What is learnt of reserved bytes corrects nothing else."""
    sample = replace(evidence(residual=4 * GB), quantity=Quantity.RESERVED)

    assert isinstance(calibrate([sample]), Calibration)
    assert taught(sample).quantity is Quantity.RESERVED
