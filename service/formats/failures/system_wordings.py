"""Wordings of the system and of launchers: the host's memory.

Kernel: mm/oom_kill.c (dump_header, __oom_kill_process) and mm/memcontrol.c. Slurm:
src/plugins/task/cgroup. Kubernetes: pkg/kubelet/eviction/helpers.go. PyTorch:
c10/core/impl/alloc_cpu.cpp, torch/utils/data/_utils/signal_handling.py, torch/distributed/elastic.
NCCL: src/os/linux_shmutils.cc. DeepSpeed: deepspeed/launcher/launch.py. Ray:
src/ray/raylet/node_manager.cc. Ollama: llm/server.go.
"""

import re
from dataclasses import dataclass

from service.formats.failures.failure import FailedMemory, FailureQuantity, FailureSpeaker
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
    "return code = -7",
    "SIGBUS",
    "Killed process",
    "low on resource",
    "running low on memory",
    "RayOutOfMemory",
    "ore system memory",
    "xit Code",
    "xit code",
    "with code 137",
    " Killed",
    "dev/shm",
    "</torch_",
    "unable to mmap",
)
"""Of every wording a text that is in its line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemWording:
    """Wording, its meaning, and the unit and quantity of its first group."""

    speaker: FailureSpeaker
    memory: FailedMemory
    kind: str
    pattern: re.Pattern[str]
    quantity: FailureQuantity | None = None
    unit: str = ""
    subject: str = ""


def word_failure(
    speaker: FailureSpeaker,
    memory: FailedMemory,
    kind: str,
    pattern: str,
    amount: tuple[FailureQuantity, str] | None = None,
    *,
    subject: str = "",
) -> SystemWording:
    """Return a wording, its first group a quantity in a unit."""
    return SystemWording(
        speaker=speaker,
        memory=memory,
        kind=kind,
        pattern=compile_wording(pattern),
        quantity=None if amount is None else amount[0],
        unit="" if amount is None else amount[1],
        subject=subject,
    )


WORDINGS = (
    word_failure(
        FailureSpeaker.KERNEL,
        FailedMemory.HOST,
        "killed_by_cgroup",
        r"Memory cgroup out of memory: Kill(?:ed)?+ process",
    ),
    word_failure(
        FailureSpeaker.KERNEL,
        FailedMemory.HOST,
        "killed_by_cgroup",
        r"oom-kill:constraint=CONSTRAINT_MEMCG",
    ),
    word_failure(
        FailureSpeaker.KERNEL, FailedMemory.HOST, "killed", r"ut of memory: Kill(?:ed)?+ process"
    ),
    word_failure(FailureSpeaker.KERNEL, FailedMemory.HOST, "killed", r"oom-kill:constraint="),
    word_failure(
        FailureSpeaker.KERNEL,
        FailedMemory.HOST,
        "killed",
        r"Killed process [0-9]{1,10}+ \([^()]{1,40}+\) total-vm:",
    ),
    word_failure(
        FailureSpeaker.SLURM,
        FailedMemory.HOST,
        "killed_by_cgroup",
        r"Detected [0-9]{1,6}+ oom[-_]kill event",
    ),
    word_failure(
        FailureSpeaker.SLURM, FailedMemory.HOST, "killed_by_cgroup", r"cgroup out-of-memory handler"
    ),
    word_failure(
        FailureSpeaker.SLURM,
        FailedMemory.HOST,
        "killed_by_cgroup",
        r"task [0-9]{1,6}+: Out Of Memory",
    ),
    word_failure(
        FailureSpeaker.SLURM,
        FailedMemory.HOST,
        "killed_by_cgroup",
        r"xceeded (?:job|step) memory limit",
    ),
    word_failure(FailureSpeaker.KUBERNETES, FailedMemory.HOST, "killed_by_cgroup", r"OOMKilled"),
    word_failure(
        FailureSpeaker.TORCH,
        FailedMemory.HOST,
        "host_allocation",
        r"DefaultCPUAllocator: (?:can't allocate|not enough) memory: you tried to allocate "
        rf"{COUNT}",
        (FailureQuantity.REQUESTED, "bytes"),
    ),
    word_failure(
        FailureSpeaker.PYTHON,
        FailedMemory.HOST,
        "host_allocation",
        rf"Unable to allocate {NUMBER} (bytes|KiB|MiB|GiB|TiB) for an array",
        (FailureQuantity.REQUESTED, ""),
    ),
    word_failure(
        FailureSpeaker.PYTHON,
        FailedMemory.HOST,
        "host_allocation",
        r"Errno 12\] Cannot allocate memory",
    ),
    word_failure(
        FailureSpeaker.PYTHON, FailedMemory.HOST, "host_allocation", r"(?:^|[ :])MemoryError"
    ),
    word_failure(FailureSpeaker.PYTHON, FailedMemory.HOST, "host_allocation", r"std::bad_alloc"),
    word_failure(
        FailureSpeaker.TORCH,
        FailedMemory.HOST,
        "worker_killed",
        r"DataLoader worker \(pid(?:\(s\))?+ [0-9, ]{1,60}+\) "
        r"(?:is killed by signal: Killed|exited)",
    ),
    word_failure(
        FailureSpeaker.TORCH,
        FailedMemory.HOST,
        "shared_memory",
        r"workers are out of shared memory|insufficient shared memory \(shm\)"
        r"|unable to (?:write to|mmap) [^<]{0,40}+</torch_|No space left on device: '/dev/shm"
        # Opening takes no memory: what else it fails of is the limit of open files.
        r"|unable to open [^<]{0,40}+</torch_[^:]{0,80}+: No space left",
    ),
    word_failure(
        FailureSpeaker.TORCH,
        FailedMemory.HOST,
        "host_allocation",
        r"unable to mmap ([0-9]{1,18}+) bytes from file <(?!/torch_)[^>]{1,400}+>: "
        r"Cannot allocate memory",
        (FailureQuantity.REQUESTED, "bytes"),
    ),
    word_failure(
        FailureSpeaker.KUBERNETES,
        FailedMemory.HOST,
        "evicted",
        r"node was low on resource: memory",
    ),
    word_failure(
        FailureSpeaker.RAY,
        FailedMemory.HOST,
        "killed_by_monitor",
        r"killed due to the node running low on memory|RayOutOfMemoryError",
    ),
    word_failure(
        FailureSpeaker.OLLAMA,
        FailedMemory.HOST,
        "host_allocation",
        rf"model requires more system memory \({NUMBER} (MiB|GiB|TiB)\) than is available",
        (FailureQuantity.REQUESTED, ""),
    ),
    word_failure(
        FailureSpeaker.NCCL,
        FailedMemory.HOST,
        "shared_memory",
        r"rror while creating shared memory segment|failed to extend /dev/shm/nccl",
    ),
    word_failure(
        FailureSpeaker.LLAMA_CPP,
        FailedMemory.HOST,
        "pinned_memory",
        r"failed to allocate [0-9.,]{1,20}+ MiB of pinned memory",
    ),
    word_failure(
        FailureSpeaker.LAUNCHER,
        FailedMemory.HOST,
        "bus_error",
        r"(?:return code = -7\b|exitcode {0,4}+[:=] {0,4}+-7\b|Signal 7 \(SIGBUS\)"
        r"|died with <Signals\.SIGBUS)",
    ),
    word_failure(
        FailureSpeaker.LAUNCHER,
        FailedMemory.HOST,
        "killed_by_signal",
        r"(?:exitcode {0,4}+[:=] {0,4}+-9\b|Signal 9 \(SIGKILL\)|return code = -9\b"
        r"|died with <Signals\.SIGKILL|(?:xit [Cc]ode:?+|exited with code) {1,12}+137\b"
        r"|line [0-9]{1,6}+: {1,4}+[0-9]{1,8}+ Killed\b)",
    ),
)
