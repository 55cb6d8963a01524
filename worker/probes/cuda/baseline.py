"""What is on the GPU before and beside the tensors: this process's context, and other processes; by NVML.

NVML cannot always see a process of a container. Then the GPU's bytes, less those that were there before CUDA's start, stand
in for the process's, and it is said.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from worker.nvml.gpus import Gpu, cuda_version, driver_version, list_gpus
from worker.nvml.library import Api, NvmlUnavailableError, opened
from worker.nvml.neighbours import own_candidates, own_pid
from worker.nvml.readers import MemoryReading, reader_of
from worker.nvml.sampler import Sampler
from worker.nvml.visible import UnknownGpuError, visible_gpus
from worker.probes.cuda.driver import Driver


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The GPU as it was found: ``baseline_bytes`` in use before CUDA's start, ``context_bytes`` what the start took.

    Where others came at the same time, so that ``candidates`` are several, nobody knows what the start took.
    """

    gpu: Gpu
    driver_version: str
    cuda_version: str | None
    baseline_bytes: int
    context_bytes: int | None
    own_pid: int | None
    candidates: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class NoGround:
    """NVML tells nothing here; ``reason`` says why."""

    reason: str


def start_on_ground(driver: Driver, api: Api = None, environ: Mapping[str, str] | None = None) -> Ground | NoGround:
    """Start CUDA, and return what that did to the GPU."""
    try:
        with opened(api) as nvml:
            # Whichever of the visible GPUs CUDA starts on, its bytes before are known.
            gpus = visible_gpus(list_gpus(nvml), os.environ if environ is None else environ)
            before = {gpu.uuid: reader_of(nvml, gpu).memory() for gpu in gpus}
            driver.start()
            gpu = _started_on(gpus, driver.facts().uuid)
            if gpu is None:
                return NoGround(reason="NVML and CUDA show different GPUs")
            return _ground(nvml, gpu, before[gpu.uuid], reader_of(nvml, gpu).memory())
    except (NvmlUnavailableError, UnknownGpuError) as error:
        driver.start()
        return NoGround(reason=str(error))


@contextmanager
def sampler_on(ground: Ground | NoGround, api: Api = None) -> Iterator[Sampler | None]:
    """Give a sampler of the GPU that is not running yet, None where NVML tells nothing."""
    if isinstance(ground, NoGround):
        yield None
        return
    with opened(api) as nvml:
        yield Sampler(reader_of(nvml, ground.gpu), own_pid=ground.own_pid, candidates=ground.candidates)


def _ground(nvml: Api, gpu: Gpu, before: MemoryReading, after: MemoryReading) -> Ground:
    pid = own_pid(before.processes, after.processes, os.getpid())
    candidates = own_candidates(before.processes, after.processes, os.getpid())
    came_alone = pid is not None or not candidates
    grown_bytes = after.used_bytes - before.used_bytes if came_alone else None
    own_bytes = None if pid is None or after.processes is None else after.processes[pid]
    return Ground(
        gpu=gpu,
        driver_version=driver_version(nvml),
        cuda_version=cuda_version(nvml),
        baseline_bytes=before.used_bytes,
        context_bytes=grown_bytes if own_bytes is None else own_bytes,
        own_pid=pid,
        candidates=candidates,
    )


def _started_on(gpus: tuple[Gpu, ...], uuid: str | None) -> Gpu | None:
    """Return the GPU that CUDA started on, None where that cannot be known: old releases of torch tell no UUID."""
    if len(gpus) == 1:
        return gpus[0]
    bare = None if uuid is None else uuid.partition("-")[2]
    return next((gpu for gpu in gpus if bare is not None and gpu.uuid.endswith(bare)), None)
