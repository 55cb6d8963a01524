"""What measured times say of a host and of a GPU."""

from dataclasses import replace
from functools import partial

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.cache import PlanCache
from service.estimator.speed.learning import MeasuredTime, read_speed, read_speeds
from service.estimator.values.corrections import (
    SHIPPED_SPEEDS,
    Corrections,
    InstantCorrection,
    SpeedRatios,
)
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.result import Bound, Throughput
from service.estimator.values.workload import TrainWorkload, Workload
from service.planner.fit.evaluator import make_evaluator

H100 = resolve_gpu("H100-SXM5-80GB").to_device()
SMALL = TrainWorkload(sequence_length=512, precision=POLICIES["bf16"])
LARGE = replace(SMALL, micro_batch_size=64)
MODEL = load_architecture(resolve_model("qwen3-0.6b"))
PLANS = PlanCache()
"""Recordings of the two jobs, which no machine changes."""


def time_job(workload: TrainWorkload, speeds: SpeedRatios) -> Throughput:
    """Return the throughput of a job on a machine of some speeds."""
    learnt = Corrections(calibration="machine", basis="analytic", speeds=speeds)
    evaluator = make_evaluator(
        MODEL, H100, corrections_for=lambda _workload, _layout: learnt, plans=PLANS
    )
    answer = evaluator.answer(workload, Layout())
    throughput = evaluator.get_throughput(workload, Layout(), answer)
    assert throughput is not None
    return throughput


def measure_job(workload: TrainWorkload, speeds: SpeedRatios) -> MeasuredTime:
    """Return the time of a job on a machine, as a measurement of it."""
    return MeasuredTime(
        seconds=time_job(workload, speeds).step_time_s,
        predict=lambda ratios: time_job(workload, ratios).step_time_s,
    )


def test_a_run_that_waits_for_the_host_tells_its_launches() -> None:
    """A host half as fast is read from one small job, and nothing of the GPU."""
    reading = read_speed(measure_job(SMALL, SpeedRatios(host=2.0)))

    assert reading is not None
    assert (reading.side, reading.speeds.gpu) == (Bound.HOST, 1.0)
    assert reading.ratio == pytest.approx(2.0, rel=2e-3)


def test_a_run_that_waits_for_the_gpu_tells_its_kernels() -> None:
    """A GPU whose clock is lower is read from one large job, and nothing of the host."""
    reading = read_speed(measure_job(LARGE, SpeedRatios(gpu=1.3)))

    assert reading is not None
    assert (reading.side, reading.speeds.host) == (Bound.GPU, 1.0)
    assert reading.ratio == pytest.approx(1.3, rel=2e-3)


def test_a_time_that_no_side_explains_tells_nothing() -> None:
    """A step in no time at all is nobody's: not the widest ratio that is believed."""
    run = MeasuredTime(seconds=1e-6, predict=lambda ratios: time_job(SMALL, ratios).step_time_s)

    assert read_speed(run) is None


def test_a_machine_moves_times_and_no_bytes() -> None:
    """A small job takes as much longer as its host; its memory is the analytic answer's."""
    learnt = Corrections(calibration="machine", basis="analytic", speeds=SpeedRatios(host=1.7))
    plain = make_evaluator(MODEL, H100)
    corrected = make_evaluator(MODEL, H100, corrections_for=lambda _workload, _layout: learnt)

    before, after = (each.answer(SMALL, Layout()) for each in (plain, corrected))

    assert replace(after, speeds=SHIPPED_SPEEDS, bases={}) == before
    timed = corrected.get_throughput(SMALL, Layout(), after)
    own = plain.get_throughput(SMALL, Layout(), before)
    assert timed is not None
    assert own is not None
    assert timed.step_time_s == pytest.approx(1.7 * own.step_time_s, rel=0.01)
    assert (own.basis, timed.basis) == ("analytic", "calibrated")


def _get_learnt(learnt: Corrections, _workload: Workload, _layout: Layout) -> Corrections:
    return learnt


def test_bytes_that_are_not_believed_say_nothing_of_the_machine() -> None:
    """The times that others took on it stay, also where the question itself was timed."""
    slow = SpeedRatios(host=1.7)
    wrong = Corrections(
        calibration="c", instants={"forward": InstantCorrection(fixed_bytes=2**40)}, speeds=slow
    )
    timed = replace(
        wrong,
        speeds=SHIPPED_SPEEDS,
        machine_speeds=slow,
        step_time_ratio=9.0,
        bases={"allocated": "calibrated", "step_time": "measured"},
    )
    plain = make_evaluator(MODEL, H100).answer(SMALL, Layout())

    for learnt in (wrong, timed):
        evaluator = make_evaluator(MODEL, H100, corrections_for=partial(_get_learnt, learnt))
        answer = evaluator.answer(SMALL, Layout())
        throughput = evaluator.get_throughput(SMALL, Layout(), answer)
        assert answer.device_bytes == plain.device_bytes
        assert "is not used" in answer.warnings[-1]
        assert throughput == time_job(SMALL, slow)
        assert dict(answer.bases) == {"step_time": "calibrated", "prefill_time": "calibrated"}


@pytest.mark.parametrize("speeds", [SpeedRatios(host=1.6, gpu=1.1), SpeedRatios(host=0.6, gpu=0.9)])
def test_two_runs_tell_of_both_sides(speeds: SpeedRatios) -> None:
    """A large job and a small one on one machine: one tells its kernels, the other its launches."""
    told = read_speeds([measure_job(LARGE, speeds), measure_job(SMALL, speeds)])

    assert told[Bound.HOST] == pytest.approx(speeds.host, rel=5e-3)
    assert told[Bound.GPU] == pytest.approx(speeds.gpu, rel=5e-3)


def test_one_run_alone_tells_of_the_side_that_explains_it() -> None:
    """Nothing is said of the other."""
    run = measure_job(LARGE, SpeedRatios(gpu=1.3))
    reading = read_speed(run)

    assert reading is not None
    assert read_speeds([run]) == {Bound.GPU: reading.ratio}
