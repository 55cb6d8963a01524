"""What a service keeps of steps that it timed is bounded in bytes."""

import tracemalloc
from dataclasses import replace

from service.catalog.gpus import resolve_device
from service.estimator.backends.pass_cache import MAX_PASSES
from service.estimator.speed.throughput import MAX_KEPT_PASSES, MAX_TIMERS, WorkCache
from service.estimator.speed.training import MAX_THROUGHPUTS
from service.estimator.values.layout import Layout
from service.estimator.values.workload import TrainWorkload
from tests.builders import a_model

STEP = TrainWorkload(sequence_length=512)
H100 = resolve_device("H100-SXM5-80GB")
MOST_BYTES = 96 * 2**20


def test_timers_hold_no_more_than_is_said() -> None:
    """One that was asked about everything it remembers, times as many as are kept."""
    works, model = WorkCache(MAX_PASSES), a_model()
    timer = works.get_timer(model, STEP, H100)
    timer.get_throughput(STEP, Layout(), None)
    tracemalloc.start()

    for size in range(1, MAX_KEPT_PASSES + 1):
        timer.time_step(replace(STEP, micro_batch_size=size), Layout())
    for size in range(1, MAX_THROUGHPUTS + 1):
        timer.get_throughput(replace(STEP, micro_batch_size=size), Layout(), size)

    num_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert num_bytes > 100_000
    assert num_bytes * MAX_TIMERS < MOST_BYTES


def test_a_process_keeps_so_many_timers_however_many_passes_it_keeps() -> None:
    """The first of more is made anew, and one that was asked too much begins again."""
    works, model = WorkCache(MAX_PASSES), a_model()
    workloads = [replace(STEP, sequence_length=8 * size) for size in range(1, MAX_TIMERS + 2)]
    timers = [works.get_timer(model, workload, H100) for workload in workloads]

    assert works.get_timer(model, workloads[-1], H100) is timers[-1]
    assert works.get_timer(model, workloads[0], H100) is not timers[0]
    assert timers[0].max_passes == MAX_KEPT_PASSES
