"""Causes and changes beside the corpus: who else was there, what grew, what an engine lacks."""

import pytest

from service.usecases.postmortem.explain import explain_data
from service.usecases.postmortem.values import CauseName, Explanation

GIB = 2**30
HEAD = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {}. GPU 0 has a total "
TAIL = (
    "capacity of {} of which {} is free. {}Of the allocated memory {} is allocated by PyTorch, "
    "and {} is reserved by PyTorch but unallocated."
)


def explain(*numbers: str, before: str = "") -> Explanation:
    """Return the explanation of a message of its numbers."""
    return explain_data(f"{before}{(HEAD + TAIL).format(*numbers)}".encode())


def list_causes(explanation: Explanation) -> list[tuple[str, str]]:
    """Return name and certainty of every cause."""
    return [(cause.name.value, cause.certainty.value) for cause in explanation.causes]


def test_a_named_process_is_to_blame() -> None:
    """Its memory alone is more than what was missing, and ending it would have been enough."""
    others = "Process 77 has 30.00 GiB memory in use. "
    own = "Including non-PyTorch memory, this process has 48.00 GiB memory in use. "

    explanation = explain(
        "4.00 GiB", "79.00 GiB", "1.00 GiB", others + own, "45.00 GiB", "2.00 GiB"
    )

    assert list_causes(explanation) == [("other_process", "certain")]
    (change,) = explanation.changes
    assert (change.action, change.fits) == ("end process 77, or run on a GPU of its own", True)
    assert change.frees_bytes is not None
    assert abs(change.frees_bytes - 30 * GIB) < GIB / 100


def test_a_process_of_a_container_is_no_stranger() -> None:
    """PyTorch does not know its own id there: the one that has what it reserved is itself."""
    process = "Process 77 has 48.00 GiB memory in use. "

    explanation = explain("4.00 GiB", "49.00 GiB", "1.00 GiB", process, "45.00 GiB", "2.00 GiB")

    assert explanation.balance.process_pid == 77
    assert list_causes(explanation) == [("too_large", "likely")]


def test_of_two_processes_the_smaller_that_can_be_it_is_it() -> None:
    """One cannot have reserved more than it has."""
    processes = (
        "Process 7 has 1.00 GiB memory in use. Process 8 has 20.00 GiB memory in use. "
        "Process 9 has 50.00 GiB memory in use. "
    )

    explanation = explain("4.00 GiB", "72.00 GiB", "1.00 GiB", processes, "18.00 GiB", "1.00 GiB")

    assert explanation.balance.process_pid == 8
    assert explanation.balance.other_pids == (7, 9)


def test_somebody_who_is_not_named_is_likely() -> None:
    """Other containers' processes are not listed, and yet the memory is gone."""
    own = "Including non-PyTorch memory, this process has 10.00 GiB memory in use. "

    explanation = explain("4.00 GiB", "79.15 GiB", "1.00 GiB", own, "9.00 GiB", "0.50 GiB")

    assert list_causes(explanation)[0] == ("other_process", "likely")
    assert explanation.balance.available is not None
    assert round(explanation.balance.available.value / GIB) == 11


def test_memory_that_grew_is_a_leak() -> None:
    """A log of several steps tells it, and by how much a step."""
    steps = "".join(f"MA {9 + step}.0 GB  Max_MA 30.0 GB\n" for step in range(9))
    own = "Including non-PyTorch memory, this process has 19.00 GiB memory in use. "

    explanation = explain(
        "2.00 GiB", "20.00 GiB", "1.00 GiB", own, "18.00 GiB", "0.10 GiB", before=steps
    )

    assert list_causes(explanation)[0] == ("leak", "likely")
    assert "1.00 GiB from one to the next" in explanation.cause.why


def test_private_pools_are_no_holes() -> None:
    """What CUDA graphs hold in reserve is counted as allocated, and no segment gives it back."""
    text = (HEAD + TAIL).format("1.00 GiB", "20.00 GiB", "0.10 GiB", "", "18.90 GiB", "0.10 GiB")
    text = text.replace("PyTorch, and", "PyTorch, with 5.00 GiB allocated in private pools, and")

    explanation = explain_data(text.encode())

    assert list_causes(explanation) == [("too_large", "likely")]


def test_too_little_for_a_cache_says_how_much() -> None:
    """An engine prints what is left for the cache, below nothing, before it gives up."""
    log = (
        "INFO gpu_worker.py: Available KV cache memory: -1.25 GiB\n"
        "args: gpu_memory_utilization=0.85\n"
        "ValueError: No available memory for the cache blocks. Try increasing"
    )

    explanation = explain_data(log.encode())

    assert explanation.cause.name is CauseName.CACHE_SHARE_TOO_SMALL
    assert "1.25 GiB too much" in explanation.cause.why
    assert explanation.changes[0].action == (
        "raise the engine's share, by more than 1.25 GiB: --gpu-memory-utilization (it is 0.85)"
    )


def test_a_capture_says_by_how_much_to_lower_the_share() -> None:
    """What was missing, as a share of the GPU, rounded up."""
    message = (HEAD + TAIL).format("2.00 GiB", "80.00 GiB", "1.00 GiB", "", "75.00 GiB", "0.10 GiB")
    log = (
        "sglang server mem_fraction_static=0.9\n"
        f"{message}\nException: Capture cuda graph failed: CUDA out of memory. Tried"
    )

    explanation = explain_data(log.encode())

    assert explanation.cause.name is CauseName.CACHE_SHARE_TOO_LARGE
    change = explanation.changes[0]
    assert (change.setting, change.fits) == ("--mem-fraction-static 0.88", True)
    assert "--cuda-graph-max-bs" in explanation.changes[1].action


def test_another_error_of_cuda_is_no_want_of_memory() -> None:
    """A smaller batch would not help against it."""
    explanation = explain_data(b"RuntimeError: CUDA error: device-side assert triggered")

    assert list_causes(explanation) == [("not_memory", "certain")]
    assert "device-side assert" in explanation.cause.why


@pytest.mark.parametrize(
    ("fault", "sign"),
    [
        ("an illegal memory access was encountered", "Exit Code: 137"),
        ("device-side assert triggered", "./run.sh: line 3: 12345 Killed    python train.py"),
        ("an illegal memory access was encountered", "  exitcode  : -9 (pid: 4711)"),
    ],
)
def test_a_fault_counts_more_than_how_the_process_ended(fault: str, sign: str) -> None:
    """Launchers kill what is left of a job, whatever it failed of."""
    explanation = explain_data(f"RuntimeError: CUDA error: {fault}\n{sign}".encode())

    assert list_causes(explanation) == [("not_memory", "certain")]


def test_a_driver_that_shuts_down_follows_from_a_killed_worker() -> None:
    """What ends has no more to say than that it was ended."""
    log = "DataLoader worker (pid 7) is killed by signal: Killed.\nCUDA error: driver shutting down"

    explanation = explain_data(log.encode())

    assert list_causes(explanation) == [("host_memory", "likely")]


def test_a_cache_that_is_full_wants_fewer_requests() -> None:
    """SGLang says it of a batch at work, over three lines."""
    log = (
        "[TP0] RuntimeError: Prefill out of memory. Try to lower your batch size.\n"
        "Try to allocate 4096 tokens.\nAvailable full tokens: 3136"
    )

    explanation = explain_data(log.encode())

    assert list_causes(explanation) == [("batch_too_large", "certain")]
    assert "--max-running-requests" in explanation.changes[0].action


def test_what_killed_a_container_is_more_than_its_exit_code() -> None:
    """The code alone says a signal, the reason beside it the limit."""
    killed = explain_data(b"  Reason:  OOMKilled\n  Exit Code:  137\n")
    alone = explain_data(b"container exited with code 137\n")

    assert list_causes(killed) == [("host_memory", "certain")]
    assert list_causes(alone) == [("host_memory", "likely")]


def test_llama_cpp_is_told_its_own_options() -> None:
    """It has no share of the GPU: its context, its slots and its layers are what changes."""
    text = (
        "allocating 14336.00 MiB on device 0: cudaMalloc failed: out of memory\n"
        "llama_kv_cache_init: failed to allocate buffer for kv cache\n"
    )

    explanation = explain_data(text.encode())

    assert list_causes(explanation) == [("too_large", "likely")]
    assert explanation.changes[0].action == "a shorter context (-c), or fewer slots (-np)"


def test_memory_that_came_back_while_an_engine_measured_is_anothers() -> None:
    """Nothing was too large: two engines began at once."""
    explanation = explain_data(b"AssertionError: Error in memory profiling. Initial free memory")

    assert list_causes(explanation) == [("other_process", "certain")]
    assert explanation.changes[0].action.startswith("start engines of one GPU one after the other")


@pytest.mark.parametrize(
    ("frame", "code", "expected"),
    [
        ("pin_memory", "return tensor.pin_memory()", CauseName.HOST_MEMORY),
        ("_create_fp32_partitions", "buffer = unpinned.pin_memory()", CauseName.HOST_MEMORY),
        ("_apply", "param_applied = fn(param)", CauseName.OUTSIDE_ALLOCATOR),
    ],
)
def test_memory_that_cannot_be_pinned_is_the_hosts(
    frame: str, code: str, expected: CauseName
) -> None:
    """CUDA words it as the GPU's (huggingface/transformers, issue 24658, offloads to the host)."""
    lines = [
        "Traceback (most recent call last):",
        f'  File "/site-packages/deepspeed/runtime/zero/stage3.py", line 812, in {frame}',
        f"    {code}",
        "RuntimeError: CUDA error: out of memory",
    ]

    explanation = explain_data("\n".join(lines).encode())

    assert explanation.causes[0].name is expected
