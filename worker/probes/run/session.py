"""Runs one point of a plan with a recorder around it and returns its bytes."""

import gc
import time
from collections.abc import Callable

import torch

from service.estimator.values.dtypes import DType
from service.estimator.values.workload import ServeWorkload, TrainWorkload
from service.probing.plan import NUM_STEPS, Point
from worker.probes.attention.mem_efficient_attention import cpu_choices
from worker.probes.models.build import TORCH_DTYPES
from worker.probes.ranks.group import fake_ranks
from worker.probes.run.backend import Session, Subject, Tell
from worker.probes.run.extrapolate import Reading, instant_of
from worker.probes.run.host import peak_resident_bytes
from worker.probes.run.recorder import BEFORE_FIRST_MARK, Stretch, mark, recording
from worker.probes.run.serving import make_server, serve
from worker.probes.run.training import STEP_MARK, make_trainee, train

_NO_INSTANT = frozenset({BEFORE_FIRST_MARK, "load", "between", "growing", "done", "end"})
_SPEED_SIZE = 1024
_SPEED_ROUNDS = 3


def run_point(subject: Subject, point: Point, *, tell: Tell) -> Session:
    """Build, run and measure one point; nothing of it is left afterwards."""
    gc.collect()
    with fake_ranks(subject.layout, subject.rank), recording() as recorded:
        seconds = _run(subject, point, tell)
        mark("end")
    tell("reading the allocations")
    return Session(
        reading=reading_of(point, recorded.stretches()),
        step_seconds=seconds,
        resident_bytes=peak_resident_bytes(),
    )


def matrix_flops(dtype: DType) -> float:
    """Return the FLOP per second of this host's matrix products, so that a plan knows what time it has."""
    matrix = torch.ones(_SPEED_SIZE, _SPEED_SIZE, dtype=TORCH_DTYPES.get(dtype, torch.float32))
    torch.mm(matrix, matrix)
    began = time.perf_counter()
    for _ in range(_SPEED_ROUNDS):
        torch.mm(matrix, matrix)
    return _SPEED_ROUNDS * 2 * _SPEED_SIZE**3 / (time.perf_counter() - began)


def _run(subject: Subject, point: Point, tell: Tell) -> tuple[float, ...]:
    tell("building the model")
    workload = subject.workload
    if isinstance(workload, ServeWorkload):
        return _serve(subject, workload, point, tell)
    return _train(subject, workload, point, tell)


def _train(subject: Subject, workload: TrainWorkload, point: Point, tell: Tell) -> tuple[float, ...]:
    trainee = make_trainee(
        subject.config, workload, layers=point.layers, kernel=subject.kernel, choices=cpu_choices(workload.attention)
    )
    seconds = train(
        trainee,
        micro_batch_size=point.micro_batch_size,
        sequence_length=point.sequence_length,
        num_steps=NUM_STEPS,
        tell=tell,
    )
    return seconds[1:]


def _serve(subject: Subject, workload: ServeWorkload, point: Point, tell: Tell) -> tuple[float, ...]:
    server = make_server(
        subject.config, workload, layers=point.layers, kernel=subject.kernel, choices=cpu_choices(workload.attention)
    )
    return serve(
        server,
        num_sequences=point.micro_batch_size,
        prompt_tokens=point.sequence_length,
        output_tokens=point.output_tokens,
        tell=tell,
    )


def reading_of(point: Point, stretches: tuple[Stretch, ...]) -> Reading:
    """Return the bytes of the steady step, stretch by stretch, and what lies around it."""
    steady = steady_stretches(stretches)
    return Reading(
        point=point,
        live=highest(steady, lambda stretch: stretch.live_peak),
        allocator=highest(steady, lambda stretch: stretch.allocator_peak),
        steady_bytes=next(stretch.start for stretch in reversed(stretches) if stretch.name == "done"),
        load_bytes=next(stretch.start for stretch in stretches if stretch.name == "load"),
    )


def steady_stretches(stretches: tuple[Stretch, ...]) -> tuple[Stretch, ...]:
    """Return the stretches of the last step, or all where there are no steps."""
    begins = [index for index, stretch in enumerate(stretches) if stretch.name.startswith(STEP_MARK)]
    last = begins[-1] + 1 if begins else 0
    return tuple(stretch for stretch in stretches[last:] if instant_of(stretch.name) not in _NO_INSTANT)


def highest(stretches: tuple[Stretch, ...], value: Callable[[Stretch], int]) -> dict[str, int]:
    """Return the highest value among the stretches of each name."""
    most: dict[str, int] = {}
    for stretch in stretches:
        most[stretch.name] = max(most.get(stretch.name, 0), value(stretch))
    return most
