"""Wordings of the system, of launchers and of CUDA's libraries.

Kernel: mm/oom_kill.c (dump_header, __oom_kill_process) and mm/memcontrol.c. Slurm:
src/plugins/task/cgroup. Kubernetes: pkg/kubelet/eviction/helpers.go. PyTorch:
c10/core/impl/alloc_cpu.cpp, c10/cuda/CUDAException.cpp, torch/utils/data/_utils/signal_handling.py,
torch/distributed/elastic. NCCL: src/include/alloc.h, src/include/checks.h. DeepSpeed:
deepspeed/launcher/launch.py. Ray: src/ray/raylet/node_manager.cc. Ollama: llm/server.go.
bitsandbytes: csrc/pythonInterface.cpp. TensorRT-LLM: cpp/include/tensorrt_llm/common/cudaUtils.h.
XLA: xla/pjrt and xla/stream_executor, of JAX and TensorFlow. Triton: runtime/errors.py.
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
    "Killed process",
    "to CUDA ",
    "_STATUS_",
    "CUDA error",
    "HIP error",
    "cudaErrorMemory",
    "OUT_OF_MEMORY",
    "Xid",
    "low on resource",
    "running low on memory",
    "RayOutOfMemory",
    "ore system memory",
    "xit Code",
    "xit code",
    "with code 137",
    "ESOURCE_EXHAUSTED",
    "esource exhausted",
    "Failed to allocate request",
    "OOM when allocating",
    "CUDA runtime error",
    "OutOfResources",
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


def _word(
    speaker: FailureSpeaker,
    memory: FailedMemory,
    kind: str,
    pattern: str,
    amount: tuple[FailureQuantity, str] | None = None,
    *,
    subject: str = "",
) -> SystemWording:
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
        r"workers are out of shared memory|insufficient shared memory \(shm\)",
    ),
    _word(
        FailureSpeaker.KUBERNETES,
        FailedMemory.HOST,
        "evicted",
        r"node was low on resource: memory",
    ),
    _word(
        FailureSpeaker.RAY,
        FailedMemory.HOST,
        "killed_by_monitor",
        r"killed due to the node running low on memory|RayOutOfMemoryError",
    ),
    _word(
        FailureSpeaker.OLLAMA,
        FailedMemory.HOST,
        "host_allocation",
        rf"model requires more system memory \({NUMBER} (MiB|GiB|TiB)\) than is available",
        (FailureQuantity.REQUESTED, ""),
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
        r"|died with <Signals\.SIGKILL|(?:xit [Cc]ode:?+|exited with code) {1,12}+137\b)",
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
        r"(?:CUDA|HIP) error: out of memory|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY"
        r"|Error out of memory at line [0-9]{1,5}+ in file",
        subject="device_context",
    ),
    _word(
        FailureSpeaker.TENSORRT_LLM,
        FailedMemory.GPU,
        "outside_the_allocator",
        r"CUDA runtime error in [^:]{0,60}+(?:::)?+[^:]{0,200}+: out of memory",
    ),
    _word(
        FailureSpeaker.XLA,
        FailedMemory.GPU,
        "xla_allocation",
        rf"ut of memory while trying to allocate {COUNT} bytes",
        (FailureQuantity.REQUESTED, "bytes"),
    ),
    _word(
        FailureSpeaker.XLA,
        FailedMemory.GPU,
        "xla_allocation",
        rf"Failed to allocate request for [0-9.]{{1,12}}+[KMGT]?+i?+B \({COUNT}B\)",
        (FailureQuantity.REQUESTED, "bytes"),
    ),
    _word(
        FailureSpeaker.XLA,
        FailedMemory.GPU,
        "xla_allocation",
        r"OOM when allocating tensor with shape",
    ),
    _word(
        FailureSpeaker.CUDA,
        FailedMemory.NONE,
        "kernel_resources",
        r"OutOfResources: out of resource: (?:shared memory|registers)",
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
