"""CPUs and host memory that a job asks for beside its GPUs."""

from dataclasses import dataclass

from service.estimator.memory.offloading import count_ranks_per_node
from service.estimator.values.units import GIB, ceil_div
from service.estimator.values.workload import Engine, ServeWorkload
from service.formats.renderings.job import Job

CPUS_PER_GPU, PROCESS_BYTES = 4, 16 * GIB
"""What the smallest GPU nodes of the clouds have for each GPU (an L4's: g6.xlarge, g2-standard-4),
and so what SkyPilot asks for where a task says nothing (skypilot-org/skypilot#7277).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostNeeds:
    """Processors and memory of one node that one replica takes.

    ``memory_bytes`` includes ``shm_bytes``, the most that it may keep in ``/dev/shm``.
    """

    cpus: int
    memory_bytes: int
    shm_bytes: int


def compute_host_needs(job: Job) -> HostNeeds:
    """Return what a replica takes of each of its nodes.

    The processes' own memory, and beside it what the answer keeps on the host. ``/dev/shm`` is half
    of the former, as Linux bounds it (Documentation/filesystems/tmpfs.rst, ``size``); vLLM keeps
    what it offloads there too (``v1/kv_offload/cpu/shared_offload_region.py``).
    """
    processes = job.gpus_per_node * PROCESS_BYTES
    kept = ceil_div(job.host_bytes_per_node, count_ranks_per_node(job.layout)) * job.gpus_per_node
    shared = kept if _keeps_in_shared_memory(job) else 0
    return HostNeeds(
        cpus=job.gpus_per_node * CPUS_PER_GPU,
        memory_bytes=processes + kept,
        shm_bytes=processes // 2 + shared,
    )


def _keeps_in_shared_memory(job: Job) -> bool:
    return isinstance(job.workload, ServeWorkload) and job.workload.engine is Engine.VLLM
