"""Memory on the GPU besides the tensors, by NVML.

It is this process's context, and other processes. NVML cannot always see a process of a container.
Then the GPU's bytes, less those that were there before CUDA's start, stand in for the process's,
and a note says so.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from worker.nvml.gpus import Gpu, list_gpus, read_cuda_version, read_driver_version
from worker.nvml.library import Api, NvmlUnavailableError, open_nvml
from worker.nvml.neighbours import find_own_candidates, find_own_pid
from worker.nvml.readers import MemoryReading, make_reader
from worker.nvml.sampler import Sampler
from worker.nvml.visible import UnknownGpuError, list_visible_gpus
from worker.probes.cuda.driver import Driver


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuBaseline:
    """The GPU's state before and after CUDA's start.

    ``baseline_bytes`` were in use before, ``context_bytes`` is what the start took. Where other
    processes came at the same time, so that ``candidates`` are several, nobody knows what the start
    took.
    """

    gpu: Gpu
    driver_version: str
    cuda_version: str | None
    baseline_bytes: int
    context_bytes: int | None
    own_pid: int | None
    candidates: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineUnavailable:
    """NVML gives no reading here; ``reason`` says why."""

    reason: str


def start_and_measure_baseline(
    driver: Driver, api: Api = None, environ: Mapping[str, str] | None = None
) -> GpuBaseline | BaselineUnavailable:
    """Start CUDA and measure what that took on the GPU."""
    try:
        with open_nvml(api) as nvml:
            # Whichever of the visible GPUs CUDA starts on, its bytes before are known.
            gpus = list_visible_gpus(list_gpus(nvml), os.environ if environ is None else environ)
            before = {gpu.uuid: make_reader(nvml, gpu).memory() for gpu in gpus}
            driver.start()
            gpu = _find_started_gpu(gpus, driver.facts().uuid)
            if gpu is None:
                return BaselineUnavailable(reason="NVML and CUDA show different GPUs")
            return _build_baseline(nvml, gpu, before[gpu.uuid], make_reader(nvml, gpu).memory())
    except (NvmlUnavailableError, UnknownGpuError) as error:
        driver.start()
        return BaselineUnavailable(reason=str(error))


@contextmanager
def open_sampler(
    baseline: GpuBaseline | BaselineUnavailable, api: Api = None
) -> Iterator[Sampler | None]:
    """Yield a sampler of the GPU that is not running yet.

    None where NVML gives no reading.
    """
    if isinstance(baseline, BaselineUnavailable):
        yield None
        return
    with open_nvml(api) as nvml:
        yield Sampler(
            make_reader(nvml, baseline.gpu),
            own_pid=baseline.own_pid,
            candidates=baseline.candidates,
        )


def _build_baseline(
    nvml: Api, gpu: Gpu, before: MemoryReading, after: MemoryReading
) -> GpuBaseline:
    pid = find_own_pid(before.processes, after.processes, os.getpid())
    candidates = find_own_candidates(before.processes, after.processes, os.getpid())
    came_alone = pid is not None or not candidates
    grown_bytes = after.used_bytes - before.used_bytes if came_alone else None
    own_bytes = None if pid is None or after.processes is None else after.processes[pid]
    return GpuBaseline(
        gpu=gpu,
        driver_version=read_driver_version(nvml),
        cuda_version=read_cuda_version(nvml),
        baseline_bytes=before.used_bytes,
        context_bytes=grown_bytes if own_bytes is None else own_bytes,
        own_pid=pid,
        candidates=candidates,
    )


def _find_started_gpu(gpus: tuple[Gpu, ...], uuid: str | None) -> Gpu | None:
    """Return the GPU that CUDA started on.

    None where that cannot be known: old releases of torch report no UUID.
    """
    if len(gpus) == 1:
        return gpus[0]
    bare = None if uuid is None else uuid.partition("-")[2]
    return next((gpu for gpu in gpus if bare is not None and gpu.uuid.endswith(bare)), None)
