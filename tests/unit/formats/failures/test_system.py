"""Words of the system, of launchers and of CUDA's libraries."""

import pytest

from service.formats.failures.failure import FailureQuantity
from service.formats.failures.scan import scan_lines

TENSOR = (
    "OOM when allocating tensor with shape[24,1,2304,1152,3] and type bfloat16 on "
    "/job:localhost/replica:0/task:0"
)
OPENED = "RuntimeError: unable to open shared memory object </torch_7_8_9> in read-write mode"


@pytest.mark.parametrize(
    ("line", "speaker", "kind"),
    [
        ("Memory cgroup out of memory: Killed process 7 (python)", "kernel", "killed_by_cgroup"),
        ("oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null)", "kernel", "killed_by_cgroup"),
        ("oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null)", "kernel", "killed"),
        ("Out of memory: Kill process 27438 (R) score 31", "kernel", "killed"),
        ("Killed process 935 (python) total-vm:113656kB, anon-rss:5kB", "kernel", "killed"),
        ("error: Detected 3 oom_kill events in StepId=1.0.", "slurm", "killed_by_cgroup"),
        ("Exceeded step memory limit at some point.", "slurm", "killed_by_cgroup"),
        ("srun: error: n1: task 0: Out Of Memory", "slurm", "killed_by_cgroup"),
        ("by the cgroup out-of-memory handler.", "slurm", "killed_by_cgroup"),
        ("  Reason:       OOMKilled", "kubernetes", "killed_by_cgroup"),
        (
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate 67108864 bytes.",
            "torch",
            "host_allocation",
        ),
        ("Unable to allocate 3.50 GiB for an array with shape (9,)", "python", "host_allocation"),
        ("OSError: [Errno 28] No space left on device: '/dev/shm/x'", "torch", "shared_memory"),
        ("RuntimeError: unable to write to file </torch_7_8_9>", "torch", "shared_memory"),
        (f"{OPENED}: No space left on device (28)", "torch", "shared_memory"),
        (f"{TENSOR}/device:CPU:0 by allocator cpu", "xla", "host_allocation"),
        (f"{TENSOR}/device:CPU:0 by allocator mklcpu [Op:Mul]", "xla", "host_allocation"),
        (f"{TENSOR}/device:GPU:0 by allocator GPU_0_bfc", "xla", "xla_allocation"),
        (TENSOR, "xla", "xla_allocation"),
        ("Out of memory while trying to allocate 1073741824 bytes.", "xla", "xla_allocation"),
        ("Out of memory while trying to allocate 60.91GiB.", "xla", "xla_allocation"),
        ("NCCL WARN Error: failed to extend /dev/shm/nccl-a to 9 bytes", "nccl", "shared_memory"),
        ("run.sh: line 3: 12345 Killed    python a.py", "launcher", "killed_by_signal"),
        ("RuntimeError: CUDA driver error: out of memory", "cuda", "outside_the_allocator"),
        ("RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at", "torch", "allocation"),
        (
            "FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::268435456 (256)MB",
            "torch",
            "allocation",
        ),
        ("OSError: [Errno 12] Cannot allocate memory", "python", "host_allocation"),
        ("MemoryError", "python", "host_allocation"),
        ("terminate called after throwing 'std::bad_alloc'", "python", "host_allocation"),
        ("DataLoader worker (pid 7) is killed by signal: Killed.", "torch", "worker_killed"),
        ("It is possible that workers are out of shared memory.", "torch", "shared_memory"),
        ("Error while creating shared memory segment /dev/shm/nccl", "nccl", "shared_memory"),
        ("failed to allocate 1900,00 MiB of pinned memory", "llama_cpp", "pinned_memory"),
        ("  exitcode  : -9 (pid: 4711)", "launcher", "killed_by_signal"),
        ("traceback : Signal 9 (SIGKILL) received by PID 7", "launcher", "killed_by_signal"),
        ("exits with return code = -9", "launcher", "killed_by_signal"),
        ("NCCL WARN Failed to CUDA calloc 6291456 bytes", "nccl", "communicator"),
        ("NCCL WARN Cuda failure 2 'out of memory'", "nccl", "communicator"),
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling", "cuda", "library"),
        ("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling", "cuda", "library_handle"),
        ("RuntimeError: CUDA error: out of memory", "cuda", "outside_the_allocator"),
        ("CUDA_ERROR_OUT_OF_MEMORY: out of memory", "cuda", "outside_the_allocator"),
        ("RuntimeError: CUDA error: device-side assert triggered", "cuda", "other_error"),
        ("NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus.", "cuda", "other_error"),
    ],
)
def test_every_wording_is_read(line: str, speaker: str, kind: str) -> None:
    """A line is looked at by a part of it, and by that part each wording is reached."""
    log = scan_lines([(1, line)])

    assert [(failure.speaker, failure.kind) for failure in log.failures] == [(speaker, kind)]


@pytest.mark.parametrize(
    "line",
    [
        "GPU memory usage while training: 15.123GB",
        "INFO loaded 12 workers, memory limit 8",
        "exitcode : 1",
        "{'loss': 1.2, 'memory/max_active (GiB)': 12.0}",
        "Xid (PCI:0000:17:00): 13, Graphics Exception",
        "CUDA error handling is on",
        f"{OPENED}: Too many open files (24)",
        f"{OPENED}: No such file or directory (2)",
        OPENED,
    ],
)
def test_what_is_no_failure_is_none(line: str) -> None:
    """Words alone that failures have as well tell nothing."""
    assert scan_lines([(1, line)]).failures == ()


def test_xla_says_what_it_asked_for_in_units() -> None:
    """Rounded to two digits, where older releases counted bytes."""
    (failure,) = scan_lines([(1, "Out of memory while trying to allocate 1.50GiB.")]).failures

    span = failure.get(FailureQuantity.REQUESTED)
    assert span is not None
    assert span.value == 3 * 2**29


def test_the_kernel_says_what_was_resident() -> None:
    """In units of 1,024 bytes."""
    line = "Out of memory: Killed process 7 (python3) total-vm:53312244kB, anon-rss:31451456kB"

    (failure,) = scan_lines([(1, line)]).failures

    span = failure.get(FailureQuantity.HOST_RESIDENT)
    assert span is not None
    assert round(span.value / 2**30) == 30
