"""Corrections are additive, shrink to the analytic answer, and improve on the evidence or stay away."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.calibration.derive import EXACT_SHARE, Calibration, Evidence, MeasuredPoint, calibrate, tolerance

GB = 10**9
BASE = 10 * GB


def evidence(num_tokens: int = 256, *, residual: int = 0, predicted: int = BASE, name: str = "m1") -> Evidence:
    """Return one measurement whose backward is ``residual`` bytes above the analytic answer."""
    return Evidence(
        measurement=name,
        point=MeasuredPoint(num_layers=2, micro_batch_size=1, sequence_length=num_tokens),
        measured={"backward": predicted + residual},
        predicted={"backward": predicted},
    )


def taught(*samples: Evidence) -> Calibration:
    """Return what samples teach, which must be something."""
    calibration = calibrate(samples)
    assert calibration is not None
    return calibration


def worst_error(calibration: Calibration, samples: list[Evidence]) -> int:
    """Return the worst bytes that a calibration leaves on its evidence."""
    correction = calibration.instants.get("backward")
    return max(
        abs(sample.residual("backward") - (correction.at(sample.point.num_tokens) if correction else 0)) for sample in samples
    )


@given(share=st.floats(min_value=-EXACT_SHARE / 2, max_value=EXACT_SHARE / 2))
def test_an_exact_answer_stays_what_it_is(share: float) -> None:
    """A residual within rounding corrects nothing, and the measurement is named all the same."""
    calibration = taught(evidence(residual=round(BASE * share)))

    assert not calibration.instants
    assert calibration.evidence == ("m1",)
    assert calibration.relative_error == pytest.approx(EXACT_SHARE)


def test_allocator_rounding_is_no_error() -> None:
    """Half a kilobyte of a tiny answer is one rounded block."""
    assert not taught(evidence(predicted=10_000, residual=512)).instants


@given(residual=st.integers(min_value=-BASE // 2, max_value=BASE))
def test_one_measurement_fixes_the_intercept(residual: int) -> None:
    """After one sample the corrected answer is what was measured there, up to what means nothing."""
    sample = evidence(residual=residual)

    calibration = taught(sample)

    assert worst_error(calibration, [sample]) <= tolerance(sample.measured["backward"])
    assert all(correction.bytes_per_token == 0 for correction in calibration.instants.values())


@given(
    fixed=st.integers(-GB, GB),
    per_token=st.integers(100_000, 1_000_000),
    num_tokens=st.integers(1, 10_000),
)
def test_a_line_is_found_exactly(fixed: int, per_token: int, num_tokens: int) -> None:
    """Two sizes give intercept and slope, and with them any third size of the same line."""
    few, many = (evidence(size, residual=fixed + per_token * size) for size in (256, 4096))

    correction = taught(few, many).instants["backward"]

    assert correction.at(num_tokens) == pytest.approx(fixed + per_token * num_tokens, abs=2)


@given(residuals=st.lists(st.integers(-BASE // 2, BASE // 2), min_size=1, max_size=6))
def test_a_correction_never_makes_its_evidence_worse(residuals: list[int]) -> None:
    """Whatever was measured, the worst error on the evidence is at most the analytic one."""
    samples = [
        evidence(256 * (index + 1), residual=residual, predicted=BASE * (index + 1), name=f"m{index}")
        for index, residual in enumerate(residuals)
    ]
    calibration = taught(*samples)
    kept = [sample for sample in samples if sample.measurement in calibration.evidence]

    assert worst_error(calibration, kept) <= max(abs(sample.residual("backward")) for sample in kept)


@given(residuals=st.lists(st.integers(0, BASE), min_size=1, max_size=6))
def test_nothing_is_added_beyond_what_was_seen(residuals: list[int]) -> None:
    """Samples of one size are corrected by something between them: never by their sum, never by more than the largest."""
    samples = [evidence(residual=residual, name=f"m{index}") for index, residual in enumerate(residuals)]
    correction = taught(*samples).instants.get("backward")

    assert correction is None or min(residuals) <= correction.at(256) <= max(residuals)


def test_memory_that_falls_with_the_batch_is_rejected() -> None:
    """A larger batch that needs less was measured wrong, and teaches nothing."""
    small = evidence(256, residual=3 * GB, name="first")
    large = evidence(4096, residual=0, name="second")

    calibration = taught(small, large)

    assert (calibration.evidence, calibration.rejected) == (("first",), ("second",))


def test_shorter_but_more_sequences_may_need_less() -> None:
    """Attention is quadratic in the sequence, so more tokens in shorter sequences are no contradiction."""
    long = evidence(4096, residual=GB, name="long")
    point = MeasuredPoint(num_layers=2, micro_batch_size=32, sequence_length=256)
    short = replace(evidence(residual=0, name="short"), point=point)

    assert taught(long, short).evidence == ("long", "short")


@pytest.mark.parametrize("change", [{"transferable": False}, {"out_of_memory": True}, {"measured": {}}])
def test_other_kernels_and_broken_runs_teach_nothing(change: dict[str, object]) -> None:
    """Only what CUDA would have run, to its end, may correct an answer for CUDA."""
    assert calibrate([replace(evidence(residual=GB), **change)]) is None  # type: ignore[arg-type]  # one case a field


def test_one_measurement_doubts_itself_elsewhere() -> None:
    """From one sample a correction may be wrong by its whole size at another."""
    calibration = taught(evidence(residual=GB))

    assert calibration.relative_error == pytest.approx(GB / (BASE + GB))


def test_agreeing_measurements_narrow_the_doubt() -> None:
    """Two sizes on one line leave nothing but the tolerance."""
    samples = [evidence(size, residual=GB, predicted=BASE * size, name=str(size)) for size in (256, 512)]

    assert taught(*samples).relative_error == pytest.approx(EXACT_SHARE)


def test_instants_are_corrected_one_by_one() -> None:
    """An error of backward says nothing about the optimizer step."""
    sample = replace(
        evidence(residual=GB),
        measured={"backward": BASE + GB, "optimizer_step": BASE},
        predicted={"backward": BASE, "optimizer_step": BASE},
    )

    assert set(taught(sample).instants) == {"backward"}


def test_slices_are_no_measurement_of_the_model_itself() -> None:
    """Only a model that was run at its own depth counts as measured."""
    own, sliced = evidence(256, name="own"), replace(evidence(512, name="sliced"), extrapolated=True)

    calibration = taught(own, sliced)

    assert [exact.point for exact in calibration.exact] == [own.point]
