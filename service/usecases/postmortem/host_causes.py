"""Causes beside the GPU's memory: the host's, or no memory at all."""

from service.formats.failures.failure import FailedMemory, Failure, FailureQuantity
from service.usecases.postmortem.evidence import show_span
from service.usecases.postmortem.values import Cause, CauseCertainty, CauseName


def explain_host(failure: Failure) -> Cause:
    """Return the cause of a failure beside the GPU's memory."""
    if failure.kind == "kernel_resources":
        why = (
            "a kernel asks for more of a multiprocessor's shared memory or registers than this GPU "
            "has: the GPU's memory was not lacking"
        )
        return Cause(name=CauseName.NOT_MEMORY, certainty=CauseCertainty.CERTAIN, why=why)
    if failure.memory is FailedMemory.NONE:
        why = (
            f"CUDA reports another fault{f' ({failure.subject})' if failure.subject else ''}: no "
            "memory was lacking, and a smaller batch would not help"
        )
        return Cause(name=CauseName.NOT_MEMORY, certainty=CauseCertainty.CERTAIN, why=why)
    if failure.kind == "bus_error":
        why = (
            "a process was killed by signal 7 (SIGBUS), as where it writes into a full /dev/shm, "
            "through which data loaders and NCCL share memory"
        )
        return Cause(name=CauseName.SHARED_MEMORY, certainty=CauseCertainty.LIKELY, why=why)
    if failure.kind == "shared_memory":
        why = "the workers that load data share memory through /dev/shm, and that is full"
        return Cause(name=CauseName.SHARED_MEMORY, certainty=CauseCertainty.CERTAIN, why=why)
    certainty = (
        CauseCertainty.LIKELY
        if failure.kind in {"killed_by_signal", "worker_killed", "pinned_tensor"}
        else CauseCertainty.CERTAIN
    )
    return Cause(name=CauseName.HOST_MEMORY, certainty=certainty, why=_describe_host(failure))


def _describe_host(failure: Failure) -> str:
    resident, limit = (
        failure.get(FailureQuantity.HOST_RESIDENT),
        failure.get(FailureQuantity.HOST_LIMIT),
    )
    requested = failure.get(FailureQuantity.REQUESTED)
    reason = {
        "killed_by_cgroup": "the job was killed at the memory limit of its cgroup",
        "killed": "the kernel killed a process because the machine's memory was full",
        "host_allocation": "the host refused an allocation",
        "pinned_memory": "the host refused an allocation of pinned memory",
        "pinned_tensor": "CUDA refused to pin memory of the host, which offloading and loaders do",
        "worker_killed": "a worker that loads data was killed",
        "evicted": "the kubelet evicted the pod, as its node was low on memory",
        "killed_by_monitor": "Ray killed a worker because the node's memory was nearly full",
        "killed_by_signal": "a process was killed by signal 9, as the kernel does when memory ends",
    }[failure.kind]
    parts = [reason]
    if requested is not None:
        parts.append(f"{show_span(requested)} were requested")
    if resident is not None:
        parts.append(f"it had {show_span(resident)} resident")
    if limit is not None:
        parts.append(f"its limit was {show_span(limit)}")
    return ", ".join(parts) + ": the host's memory, not the GPU's"
