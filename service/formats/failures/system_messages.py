"""Failures in words of the system, launchers and CUDA's libraries.

Kernel: mm/oom_kill.c (dump_header, __oom_kill_process) and mm/memcontrol.c. Slurm:
src/plugins/task/cgroup. PyTorch: c10/core/impl/alloc_cpu.cpp, c10/cuda/CUDAException.cpp,
torch/utils/data/_utils/signal_handling.py, torch/distributed/elastic. NCCL: src/include/alloc.h,
src/include/checks.h. DeepSpeed: deepspeed/launcher/launch.py.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from service.formats.failures.failure import (
    Amount,
    FailedMemory,
    Failure,
    FailureQuantity,
    FailureSpeaker,
    make_amount,
)
from service.formats.failures.wording import COUNT, NUMBER, compile_wording

MARKS = (
    "oom-kill",
    "oom_kill",
    "OOMKilled",
    "ut of memory",
    "ut Of Memory",
    "out-of-memory",
    "memory limit",
    "DefaultCPUAllocator",
    "to allocate ",
    "Cannot allocate memory",
    "MemoryError",
    "bad_alloc",
    "DataLoader worker",
    "shared memory",
    "pinned memory",
    "exitcode",
    "SIGKILL",
    "return code = -9",
    "Killed process",
    "to CUDA ",
    "_STATUS_",
    "CUDA error",
    "HIP error",
    "cudaErrorMemory",
    "OUT_OF_MEMORY",
    "Xid",
)
"""Of every wording a text that is in its line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wording:
    """Wording, its meaning, and the unit and quantity of its first group."""

    speaker: FailureSpeaker
    memory: FailedMemory
    kind: str
    pattern: re.Pattern[str]
    quantity: FailureQuantity | None = None
    unit: str = ""
    subject: str = ""


def _word(
    speaker: FailureSpeaker,
    memory: FailedMemory,
    kind: str,
    pattern: str,
    amount: tuple[FailureQuantity, str] | None = None,
    *,
    subject: str = "",
) -> _Wording:
    return _Wording(
        speaker=speaker,
        memory=memory,
        kind=kind,
        pattern=compile_wording(pattern),
        quantity=None if amount is None else amount[0],
        unit="" if amount is None else amount[1],
        subject=subject,
    )


_WORDINGS = (
    _word(
        FailureSpeaker.KERNEL,
        FailedMemory.HOST,
        "killed_by_cgroup",
        r"Memory cgroup out of memory: Kill(?:ed)?+ process",
    ),
    _word(
        FailureSpeaker.KERNEL,
        FailedMemory.HOST,
        "killed_by_cgroup",
        r"oom-kill:constraint=CONSTRAINT_MEMCG",
    ),
    _word(
        FailureSpeaker.KERNEL, FailedMemory.HOST, "killed", r"ut of memory: Kill(?:ed)?+ process"
    ),
    _word(FailureSpeaker.KERNEL, FailedMemory.HOST, "killed", r"oom-kill:constraint="),
    _word(
        FailureSpeaker.KERNEL,
        FailedMemory.HOST,
        "killed",
        r"Killed process [0-9]{1,10}+ \([^()]{1,40}+\) total-vm:",
    ),
    _word(
        FailureSpeaker.SLURM,
        FailedMemory.HOST,
        "killed_by_cgroup",
        r"Detected [0-9]{1,6}+ oom[-_]kill event",
    ),
    _word(
        FailureSpeaker.SLURM, FailedMemory.HOST, "killed_by_cgroup", r"cgroup out-of-memory handler"
    ),
    _word(
        FailureSpeaker.SLURM,
        FailedMemory.HOST,
        "killed_by_cgroup",
        r"task [0-9]{1,6}+: Out Of Memory",
    ),
    _word(
        FailureSpeaker.SLURM,
        FailedMemory.HOST,
        "killed_by_cgroup",
        r"xceeded (?:job|step) memory limit",
    ),
    _word(FailureSpeaker.KUBERNETES, FailedMemory.HOST, "killed_by_cgroup", r"OOMKilled"),
    _word(
        FailureSpeaker.TORCH,
        FailedMemory.HOST,
        "host_allocation",
        r"DefaultCPUAllocator: (?:can't allocate|not enough) memory: you tried to allocate "
        rf"{COUNT}",
        (FailureQuantity.REQUESTED, "bytes"),
    ),
    _word(
        FailureSpeaker.PYTHON,
        FailedMemory.HOST,
        "host_allocation",
        rf"Unable to allocate {NUMBER} (bytes|KiB|MiB|GiB|TiB) for an array",
        (FailureQuantity.REQUESTED, ""),
    ),
    _word(
        FailureSpeaker.PYTHON,
        FailedMemory.HOST,
        "host_allocation",
        r"Errno 12\] Cannot allocate memory",
    ),
    _word(FailureSpeaker.PYTHON, FailedMemory.HOST, "host_allocation", r"(?:^|[ :])MemoryError"),
    _word(FailureSpeaker.PYTHON, FailedMemory.HOST, "host_allocation", r"std::bad_alloc"),
    _word(
        FailureSpeaker.TORCH,
        FailedMemory.HOST,
        "worker_killed",
        r"DataLoader worker \(pid(?:\(s\))?+ [0-9, ]{1,60}+\) "
        r"(?:is killed by signal: Killed|exited)",
    ),
    _word(
        FailureSpeaker.TORCH,
        FailedMemory.HOST,
        "shared_memory",
        r"workers are out of shared memory",
    ),
    _word(
        FailureSpeaker.NCCL,
        FailedMemory.HOST,
        "shared_memory",
        r"rror while creating shared memory segment",
    ),
    _word(
        FailureSpeaker.LLAMA_CPP,
        FailedMemory.HOST,
        "pinned_memory",
        r"failed to allocate [0-9.,]{1,20}+ MiB of pinned memory",
    ),
    _word(
        FailureSpeaker.LAUNCHER,
        FailedMemory.HOST,
        "killed_by_signal",
        r"(?:exitcode {0,4}+[:=] {0,4}+-9\b|Signal 9 \(SIGKILL\)|return code = -9\b"
        r"|died with <Signals\.SIGKILL)",
    ),
    _word(
        FailureSpeaker.NCCL,
        FailedMemory.GPU,
        "communicator",
        rf"Failed to CUDA (?:calloc|malloc|host alloc)(?: async)?+ {COUNT} bytes",
        (FailureQuantity.REQUESTED, "bytes"),
        subject="communication_buffers",
    ),
    _word(
        FailureSpeaker.NCCL,
        FailedMemory.GPU,
        "communicator",
        r"Cuda failure (?:[0-9]{1,3}+ )?+'out of memory'",
        subject="communication_buffers",
    ),
    _word(
        FailureSpeaker.CUDA,
        FailedMemory.GPU,
        "library",
        r"(?:CUBLAS|CUDNN|CUSOLVER|CUFFT|CUSPARSE|HIPBLAS|MIOPEN)_STATUS_ALLOC_FAILED",
        subject="library_workspaces",
    ),
    _word(
        FailureSpeaker.CUDA,
        FailedMemory.GPU,
        "library_handle",
        r"(?:CUBLAS|CUDNN)_STATUS_NOT_INITIALIZED",
        subject="library_workspaces",
    ),
    _word(
        FailureSpeaker.CUDA,
        FailedMemory.GPU,
        "outside_the_allocator",
        r"(?:CUDA|HIP) error: out of memory|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY",
        subject="device_context",
    ),
    _word(
        FailureSpeaker.CUDA,
        FailedMemory.NONE,
        "other_error",
        r"(?:CUDA|HIP) error: (an illegal memory access was encountered|illegal memory access"
        r"|device-side assert triggered|misaligned address|unspecified launch failure"
        r"|invalid device ordinal|no kernel image is available|invalid argument"
        r"|uncorrectable ECC error|invalid configuration argument|the launch timed out"
        r"|initialization error|driver shutting down|operation not supported|device kernel image)",
    ),
    _word(
        FailureSpeaker.CUDA,
        FailedMemory.NONE,
        "other_error",
        r"Xid \([^()]{1,40}+\): (?:31|43|45|48|63|64|74|79|94|95)\b",
    ),
)
_RESIDENT = compile_wording(r"anon-rss:([0-9]{1,15}+)kB")


def iter_system_failures(text: str, *, line: int, rank: str | None) -> Iterator[Failure]:
    """Yield what the system or a library says in a line."""
    for wording in _WORDINGS:
        match = wording.pattern.search(text)
        if match is None:
            continue
        yield Failure(
            speaker=wording.speaker,
            memory=wording.memory,
            kind=wording.kind,
            line=line,
            amounts=tuple(_iter_amounts(wording, match, text, line)),
            rank=rank,
            subject=match[1]
            if wording.kind == "other_error" and match.re.groups
            else wording.subject,
        )
        return


def _iter_amounts(
    wording: _Wording, match: re.Match[str], text: str, line: int
) -> Iterator[Amount]:
    if wording.quantity is not None:
        yield make_amount(wording.quantity, match[1], wording.unit or match[2], line=line)
    if (
        wording.speaker is FailureSpeaker.KERNEL
        and (resident := _RESIDENT.search(text)) is not None
    ):
        yield make_amount(FailureQuantity.HOST_RESIDENT, resident[1], "kB", line=line)
