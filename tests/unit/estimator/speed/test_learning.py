"""What measured times say of a host and of a GPU."""

from dataclasses import replace

import pytest

from service.catalog.gpus import resolve_gpu
from service.catalog.models import load_architecture, resolve_model
from service.estimator.cache import PlanCache
from service.estimator.estimate import estimate
from service.estimator.speed.learning import MeasuredTime, learn_speeds
from service.estimator.speed.throughput import estimate_throughput
from service.estimator.values.corrections import Corrections, SpeedRatios
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES
from service.estimator.values.result import Throughput
from service.estimator.values.workload import TrainWorkload

H100 = resolve_gpu("H100-SXM5-80GB").to_device()
SMALL = TrainWorkload(sequence_length=512, precision=POLICIES["bf16"])
LARGE = replace(SMALL, micro_batch_size=64)
MODEL = load_architecture(resolve_model("qwen3-0.6b"))
PLANS = PlanCache()


def time_job(workload: TrainWorkload, speeds: SpeedRatios | None = None) -> Throughput:
    """Return the throughput of a job on a machine of some speeds."""
    corrections = None if speeds is None else Corrections(calibration="c", speeds=speeds)
    answer = estimate(
        MODEL, workload, layout=Layout(), device=H100, corrections=corrections, plans=PLANS
    )
    throughput = estimate_throughput(MODEL, workload, Layout(), H100, answer, PLANS.works)
    assert throughput is not None
    return throughput


def measure_job(workload: TrainWorkload, speeds: SpeedRatios) -> MeasuredTime:
    """Return the time of a job on a machine, as a measurement of it."""
    return MeasuredTime(
        seconds=time_job(workload, speeds).step_time_s,
        predict=lambda ratios: time_job(workload, ratios).step_time_s,
    )


def test_one_run_that_waits_for_the_host_tells_its_launches() -> None:
    """A host half as fast is learnt from one small job, and nothing of the GPU."""
    slow = SpeedRatios(host=2.0)

    learnt = learn_speeds([measure_job(SMALL, slow)])

    assert learnt.host == pytest.approx(2.0, rel=1e-4)
    assert learnt.gpu == 1.0


def test_one_run_that_waits_for_the_gpu_tells_its_kernels() -> None:
    """A GPU whose clock is lower is learnt from one large job, and nothing of the host."""
    learnt = learn_speeds([measure_job(LARGE, SpeedRatios(gpu=1.3))])

    assert learnt.gpu == pytest.approx(1.3, rel=1e-4)
    assert learnt.host == 1.0


def test_both_are_learnt_from_runs_of_both_kinds() -> None:
    """The host that small jobs tell does not hide what large ones say of the GPU."""
    machine = SpeedRatios(host=1.5, gpu=1.2)

    learnt = learn_speeds([measure_job(workload, machine) for workload in (SMALL, LARGE)])

    assert (learnt.host, learnt.gpu) == pytest.approx((1.5, 1.2), rel=0.02)


def test_a_learnt_host_answers_for_neighbours() -> None:
    """Another batch on the same machine is answered by what one measurement taught."""
    machine, neighbour = SpeedRatios(host=1.7), replace(SMALL, micro_batch_size=2)

    learnt = learn_speeds([measure_job(SMALL, machine)])

    assert time_job(neighbour, learnt).step_time_s == pytest.approx(
        time_job(neighbour, machine).step_time_s, rel=0.01
    )
