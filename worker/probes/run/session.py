"""Runs of one point of a plan with a recorder around them."""

import gc
import time
from collections.abc import Callable

import torch

from service.estimator.values.dtypes import DType
from service.estimator.values.workload import ServeWorkload, TrainWorkload
from service.probing.plan import NUM_STEPS, Point
from worker.probes.attention.mem_efficient_attention import make_cpu_context
from worker.probes.models.build import TORCH_DTYPES
from worker.probes.ranks.group import fake_ranks
from worker.probes.run.backend import OnStep, PointResult, ProbeSetup
from worker.probes.run.extrapolate import PointReading, get_instant
from worker.probes.run.host import read_peak_resident_bytes
from worker.probes.run.recorder import BEFORE_FIRST_MARK, Stretch, mark, record_allocations
from worker.probes.run.serving import make_server, serve
from worker.probes.run.training import STEP_MARK, make_trainer, train

_NO_INSTANT = frozenset({BEFORE_FIRST_MARK, "load", "between", "growing", "done", "end"})
_SPEED_SIZE = 1024
_SPEED_ROUNDS = 3


def run_point(setup: ProbeSetup, point: Point, *, on_step: OnStep) -> PointResult:
    """Build, run and measure one point, leaving nothing behind."""
    gc.collect()
    with fake_ranks(setup.layout, setup.rank), record_allocations() as recorder:
        seconds = _run(setup, point, on_step)
        mark("end")
    on_step("reading the allocations")
    return PointResult(
        reading=build_reading(point, recorder.stretches()),
        step_seconds=seconds,
        resident_bytes=read_peak_resident_bytes(),
    )


def measure_matrix_flops(dtype: DType) -> float:
    """Measure the FLOP per second of this host's matrix products.

    A plan estimates from it what it has time for.
    """
    matrix = torch.ones(_SPEED_SIZE, _SPEED_SIZE, dtype=TORCH_DTYPES.get(dtype, torch.float32))
    torch.mm(matrix, matrix)
    began = time.perf_counter()
    for _ in range(_SPEED_ROUNDS):
        torch.mm(matrix, matrix)
    return _SPEED_ROUNDS * 2 * _SPEED_SIZE**3 / (time.perf_counter() - began)


def _run(setup: ProbeSetup, point: Point, on_step: OnStep) -> tuple[float, ...]:
    on_step("building the model")
    workload = setup.workload
    if isinstance(workload, ServeWorkload):
        return _serve(setup, workload, point, on_step)
    return _train(setup, workload, point, on_step)


def _train(
    setup: ProbeSetup, workload: TrainWorkload, point: Point, on_step: OnStep
) -> tuple[float, ...]:
    trainer = make_trainer(
        setup.config,
        workload,
        layers=point.layers,
        kernel=setup.kernel,
        kernel_context=make_cpu_context(workload.attention),
    )
    seconds = train(
        trainer,
        micro_batch_size=point.micro_batch_size,
        sequence_length=point.sequence_length,
        num_steps=NUM_STEPS,
        on_step=on_step,
    )
    return seconds[1:]


def _serve(
    setup: ProbeSetup, workload: ServeWorkload, point: Point, on_step: OnStep
) -> tuple[float, ...]:
    server = make_server(
        setup.config,
        workload,
        layers=point.layers,
        kernel=setup.kernel,
        kernel_context=make_cpu_context(workload.attention),
    )
    return serve(
        server,
        num_sequences=point.micro_batch_size,
        prompt_tokens=point.sequence_length,
        output_tokens=point.output_tokens,
        on_step=on_step,
    )


def build_reading(point: Point, stretches: tuple[Stretch, ...]) -> PointReading:
    """Build the reading of the steady step, stretch by stretch.

    It has the bytes before and after the step too.
    """
    steady = select_steady_stretches(stretches)
    return PointReading(
        point=point,
        live=compute_highest(steady, lambda stretch: stretch.live_peak),
        allocator=compute_highest(steady, lambda stretch: stretch.allocator_peak),
        steady_bytes=next(
            stretch.start for stretch in reversed(stretches) if stretch.name == "done"
        ),
        load_bytes=next(stretch.start for stretch in stretches if stretch.name == "load"),
    )


def select_steady_stretches(stretches: tuple[Stretch, ...]) -> tuple[Stretch, ...]:
    """Select the stretches of the last step.

    These are all stretches where there are no steps.
    """
    begins = [
        index for index, stretch in enumerate(stretches) if stretch.name.startswith(STEP_MARK)
    ]
    last = begins[-1] + 1 if begins else 0
    return tuple(
        stretch for stretch in stretches[last:] if get_instant(stretch.name) not in _NO_INSTANT
    )


def compute_highest(
    stretches: tuple[Stretch, ...], value: Callable[[Stretch], int]
) -> dict[str, int]:
    """Return the highest value among the stretches of each name."""
    peaks: dict[str, int] = {}
    for stretch in stretches:
        peaks[stretch.name] = max(peaks.get(stretch.name, 0), value(stretch))
    return peaks
