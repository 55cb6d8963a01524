"""Shares of a GPU's memory, and servers that stay within.

HAMi-core shows a process the limit as the GPU's total memory (Project-HAMi/HAMi-core,
``src/cuda/memory.c``, ``cuMemGetInfo_v2``). An engine that takes a fraction of the
total takes it of the limit there.
"""

from dataclasses import replace
from math import floor

from service.estimator.values.units import MIB, ceil_div
from service.estimator.values.workload import Engine, ServeWorkload
from service.formats.renderings.job import Job, Launch, UnrenderableError

_FRACTION = "--gpu-memory-utilization"
_DIGITS = 10_000
_UNDIVIDED = frozenset({Engine.TRANSFORMERS, Engine.LLAMA_CPP, Engine.VLLM})
"""Servers that take what they need, or, as vLLM, an exact fraction of the total."""


def get_share_mib(job: Job) -> int:
    """Return the MiB that a job needs of each GPU, rounded up."""
    return ceil_div(job.needed_bytes, MIB)


def is_shareable(job: Job) -> bool:
    """Return whether two such jobs have room on a GPU.

    Who needs more than half of a GPU, or several, has them alone.
    """
    fits_twice = 2 * get_share_mib(job) * MIB <= job.device.usable_bytes
    return (
        fits_twice
        and job.gpus_per_node == job.num_nodes == 1
        and job.mig_profile is None
        and find_share_obstacle(job) is None
    )


def find_share_obstacle(job: Job) -> str | None:
    """Return why a share is too little; None where it is not."""
    workload = job.workload
    if not isinstance(workload, ServeWorkload) or workload.engine in _UNDIVIDED:
        return None
    return (
        f"{workload.engine.value} fills a fraction of the memory that it finds, and a share of a "
        "GPU would leave it less than was planned: format kubernetes"
    )


def fit_into_share(job: Job, launch: Launch) -> Launch:
    """Return a launch that has what was planned, on a share.

    vLLM's fraction of the GPU becomes one of the share; custom all-reduce, whose memory processes
    open of each other, fails on shares (Project-HAMi/HAMi, ``examples/nvidia/
    vllm_cross_vgpu.yaml``). Raises UnrenderableError for engines without such a fraction.
    """
    obstacle = find_share_obstacle(job)
    if obstacle is not None:
        raise UnrenderableError(obstacle)
    if _FRACTION not in launch.command:
        return launch
    place = launch.command.index(_FRACTION) + 1
    planned_bytes = float(launch.command[place]) * job.device.usable_bytes
    fraction = floor(planned_bytes / (get_share_mib(job) * MIB) * _DIGITS) / _DIGITS
    if fraction > 1:
        message = (
            f"vLLM's pool of {planned_bytes:.0f} B is larger than the {get_share_mib(job)} MiB "
            "that it needs: format kubernetes"
        )
        raise UnrenderableError(message)
    command = (*launch.command[:place], str(fraction), *launch.command[place + 1 :])
    several = ("--disable-custom-all-reduce",) if job.layout.tensor_parallel > 1 else ()
    return replace(launch, command=(*command, *several))
