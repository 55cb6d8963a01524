"""What measurements add: never less than a smaller run needed, nothing reserved below what is
allocated, times by a factor.
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.estimator.memory.answer.corrections import (
    apply_measured_error,
    correct_context,
    correct_slack,
    correct_throughput,
)
from service.estimator.memory.overheads.overheads import Overhead
from service.estimator.memory.phase_peaks import PhasePeak, correct_phase_peaks
from service.estimator.values.corrections import (
    Corrections,
    ImplausibleCorrectionError,
    InstantCorrection,
)
from service.estimator.values.result import Interval, Throughput

NONE = Corrections(calibration="c", proven=True)
SLACK = Overhead(point=100, low=50, high=200, formula="f", source="s")
MOMENTS = tuple(
    PhasePeak(name=name, allocated_bytes=size, parts={"activations": size})
    for name, size in (("forward", 700), ("loss", 1000))
)
TIMED = Throughput(
    step_time_s=2.0,
    tokens_per_second=100.0,
    tokens_per_second_per_gpu=50.0,
    mfu=0.4,
    hours_for_tokens=8.0,
    host_time_s=1.0,
    gpu_time_s=1.8,
)


def peak(corrections: Corrections | None) -> int:
    """Return the highest corrected moment."""
    return max(moment.allocated_bytes for moment in correct_phase_peaks(MOMENTS, corrections, 10))


@given(least=st.integers(0, 5000), fixed=st.integers(-1000, 1000))
def test_running_out_of_memory_never_lowers(least: int, fixed: int) -> None:
    """What was needed at least raises the peak to itself, and otherwise changes nothing."""
    learnt = replace(NONE, instants={"loss": InstantCorrection(fixed_bytes=fixed)})

    assert peak(replace(learnt, at_least_bytes=least)) == max(peak(learnt), least)
    assert peak(None) == 1000


@given(fixed=st.integers(-5000, 5000))
def test_what_no_probe_proved_stays_near_the_analytic_answer(fixed: int) -> None:
    """A peak that a model of another shape would have is refused, whichever way; a probe of this
    very one may say anything.
    """
    learnt = replace(NONE, proven=False, instants={"loss": InstantCorrection(fixed_bytes=fixed)})
    answer = max(700, 1000 + fixed)

    if 450 <= answer <= 1700:
        assert peak(learnt) == answer
    else:
        with pytest.raises(ImplausibleCorrectionError, match="not used"):
            peak(learnt)
    assert peak(replace(learnt, proven=True)) == answer


def test_what_is_raised_is_counted_as_activations() -> None:
    """The parts of a moment still add up to it."""
    forward, loss = correct_phase_peaks(MOMENTS, replace(NONE, at_least_bytes=1500), 10)

    assert (forward, loss.parts) == (MOMENTS[0], {"activations": 1500})


def test_a_share_is_of_the_analytic_answer() -> None:
    """A family that is a tenth off adds a tenth, and a token what a token takes."""
    correction = InstantCorrection(fixed_bytes=1, bytes_per_token=2.0, share=0.1)

    assert correction.compute_bytes(10, 1000) == 121


@given(added=st.integers(-5000, 5000), most=st.none() | st.integers(0, 5000))
def test_nothing_is_reserved_that_is_less_than_allocated(added: int, most: int | None) -> None:
    """A correction moves the slack, which never ends below nothing, nor above what a larger run
    made do with.
    """
    corrections = replace(
        NONE, reserved=InstantCorrection(fixed_bytes=added), reserved_at_most_bytes=most
    )

    found = correct_slack(SLACK, 1000, corrections)

    assert 0 <= found.point <= max(0, SLACK.point + added)
    assert most is None or found.point <= max(0, most - 1000)
    assert found.low <= found.point <= found.high or added < 0 or most is not None


def test_without_corrections_everything_stays() -> None:
    """Nothing learnt is nothing changed."""
    assert correct_slack(SLACK, 1000, None) is correct_slack(SLACK, 1000, NONE) is SLACK
    assert correct_context(SLACK, SLACK, None) is correct_context(SLACK, SLACK, NONE) is SLACK
    assert correct_throughput(TIMED, 1.0) is TIMED
    assert correct_throughput(None, 2.0) is None
    assert apply_measured_error(100, None, Interval(1, 2)) == Interval(1, 2)


def test_what_lies_beside_the_allocator_is_corrected_as_a_whole() -> None:
    """Context and communicators were read together; the correction stands with the context."""
    moved = correct_context(SLACK, SLACK, replace(NONE, outside=InstantCorrection(fixed_bytes=60)))
    narrow = correct_context(SLACK, SLACK, replace(NONE, outside_error=0.1))
    gone = correct_context(SLACK, SLACK, replace(NONE, outside=InstantCorrection(fixed_bytes=-500)))

    assert (moved.point, moved.low, moved.high) == (160, 110, 260)
    assert "+60 B measured" in moved.formula
    assert (narrow.point, narrow.low, narrow.high) == (100, 80, 120)
    assert gone.point == 0


def test_measured_widths_make_the_interval() -> None:
    """A tenth to each side, and never below nothing."""
    assert apply_measured_error(1000, 0.1, Interval(0, 9)) == Interval(900, 1100)
    assert apply_measured_error(1000, 1.5, Interval(0, 9)).low == 0


@pytest.mark.parametrize(("hours", "expected"), [(8.0, 12.0), (None, None)])
def test_steps_that_take_longer_do_less(hours: float | None, expected: float | None) -> None:
    """Half as long again: time and hours grow, rates shrink by as much."""
    found = correct_throughput(replace(TIMED, hours_for_tokens=hours), 1.5)

    assert found is not None
    assert (found.step_time_s, found.hours_for_tokens, found.basis) == (3.0, expected, "calibrated")
    assert found.tokens_per_second == pytest.approx(100 / 1.5)
    assert found.mfu == pytest.approx(0.4 / 1.5)
