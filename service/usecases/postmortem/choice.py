"""Choice of the failure that ended a run."""

from collections.abc import Sequence
from dataclasses import replace

from service.formats.failures.failure import FailedMemory, Failure, FailureLog, FailureSpeaker

_REFUSALS = frozenset(
    {
        "no_cache_memory",
        "length_exceeds_cache",
        "too_little_free_at_start",
        "unbalanced",
        "cache_full",
        "prefill_too_large",
    }
)
_SIGNS = frozenset({"killed_by_signal", "worker_killed"})
"""What others say more of: who ended, not why."""
_ENDINGS = frozenset({"driver shutting down"})
"""Faults of CUDA that follow from a process's end."""
_RELATED_LINES = 400
"""An engine words what PyTorch refused within so many lines: its traceback lies between."""
_LLAMA_LINES = 12
_CAPTURES = frozenset({"sampler_warm_up", "graph_capture", "memory_changed_while_profiling"})


def choose_failure(log: FailureLog) -> Failure:
    """Return the failure that ended the program."""
    for group in (
        [failure for failure in log.failures if failure.kind in _REFUSALS],
        [failure for failure in log.failures if _is_allocation(failure) and failure.amounts],
        [failure for failure in log.failures if _is_allocation(failure)],
        [failure for failure in log.failures if failure.kind == "buffer" and failure.amounts],
        [failure for failure in log.failures if failure.memory is FailedMemory.GPU],
        [failure for failure in log.failures if _is_host(failure) and failure.kind not in _SIGNS],
        [failure for failure in log.failures if _is_fault(failure)],
        [failure for failure in log.failures if _is_host(failure)],
        log.failures,
    ):
        if group:
            return _add_related(_choose_last(group), log.failures)
    message = "no failure to choose"
    raise ValueError(message)


def _is_host(failure: Failure) -> bool:
    return failure.memory is FailedMemory.HOST


def _is_fault(failure: Failure) -> bool:
    """Return whether CUDA failed of no want of memory."""
    return failure.kind == "other_error" and failure.subject not in _ENDINGS


def _is_allocation(failure: Failure) -> bool:
    return failure.memory is FailedMemory.GPU and failure.speaker in {
        FailureSpeaker.TORCH,
        FailureSpeaker.SNAPSHOT,
    }


def _choose_last(failures: Sequence[Failure]) -> Failure:
    """Return the first failure of the last round.

    Ranks fail one after the other; one that fails a second time begins another round, as a program
    does that tries again with a smaller batch.
    """
    first, seen = failures[0], set[tuple[str | None, int | None]]()
    for failure in failures:
        rank = failure.rank, failure.gpu
        if rank in seen and failure.kind != "buffer":
            first, seen = failure, set()
        seen.add(rank)
    return first


def _add_rows(failure: Failure, failures: Sequence[Failure]) -> Failure:
    """Return a job's failure with the numbers of all its rows.

    Limits stand in the row of the job, what it had in those of its steps.
    """
    job = failure.subject.partition(".")[0]
    rows = [row for row in failures if job and row.subject.partition(".")[0] == job]
    return replace(failure, amounts=tuple(amount for row in rows for amount in row.amounts))


def _add_related(failure: Failure, failures: Sequence[Failure]) -> Failure:
    """Return the failure with what further words about it name."""
    if failure.speaker is FailureSpeaker.SLURM:
        return _add_rows(failure, failures)
    if failure.subject or failure.line is None:
        return failure
    reach = _LLAMA_LINES if failure.kind == "buffer" else _RELATED_LINES
    for other in failures:
        near = other.line is not None and 0 <= other.line - failure.line <= reach
        same = other.kind in _CAPTURES or (failure.kind == "buffer" == other.kind)
        if near and same and other.subject:
            return replace(
                failure, subject=other.subject, amounts=(*failure.amounts, *other.amounts)
            )
    return failure
