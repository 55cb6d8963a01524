"""Causes of a failure, the one that explains it best first."""

from collections.abc import Callable, Iterator

from service.estimator.values.units import format_bytes
from service.formats.failures.failure import FailedMemory, FailureQuantity
from service.formats.failures.places import LOAD, PROFILE, SETUP, STATES, STEP
from service.usecases.postmortem.balance import CONTEXT
from service.usecases.postmortem.engine_causes import explain_start, judge_engine
from service.usecases.postmortem.evidence import Evidence, show_span
from service.usecases.postmortem.host_causes import explain_host
from service.usecases.postmortem.values import Cause, CauseCertainty, CauseName, at_least

_LARGE_SHARE = 0.1
"""Share of a GPU that others must have to be named where they do not decide."""
_MODEL = frozenset(place.what for place in (LOAD, SETUP, STATES, STEP))


def find_causes(evidence: Evidence) -> tuple[Cause, ...]:
    """Return every cause that the numbers speak for, at least one."""
    if evidence.failure.memory is not FailedMemory.GPU:
        return (explain_host(evidence.failure),)
    causes = [cause for judge in _JUDGES for cause in judge(evidence)]
    if not any(_is_enough(cause) for cause in causes):
        causes.append(_explain_size(evidence))
    order = list(CauseCertainty)
    return tuple(sorted(causes, key=lambda cause: order.index(cause.certainty)))


def _is_enough(cause: Cause) -> bool:
    """Return whether a cause needs no further one beside it."""
    return cause.certainty is CauseCertainty.CERTAIN or (
        cause.name
        in {
            CauseName.REFUSED_THOUGH_FREE,
            CauseName.CACHE_SHARE_TOO_LARGE,
            CauseName.OUTSIDE_ALLOCATOR,
        }
        and cause.certainty is CauseCertainty.LIKELY
    )


def _judge_size(evidence: Evidence) -> Iterator[Cause]:
    balance = evidence.balance
    if evidence.failure.kind == "impossible_allocation":
        why = "more than 1 EB was requested: a size that was computed wrong, or a corrupt shape"
        yield Cause(name=CauseName.IMPOSSIBLE_SIZE, certainty=CauseCertainty.CERTAIN, why=why)
    elif balance.requested and balance.total and at_least(balance.requested, balance.total):
        why = (
            f"one tensor of {show_span(balance.requested)} was requested, and the GPU has "
            f"{show_span(balance.total)} in all"
        )
        yield Cause(name=CauseName.LARGER_THAN_GPU, certainty=CauseCertainty.CERTAIN, why=why)


def _judge_limit(evidence: Evidence) -> Iterator[Cause]:
    balance = evidence.balance
    missing = balance.missing
    if balance.limit is None or missing is None or missing.low > 0:
        return
    why = (
        f"this process may have {show_span(balance.limit)} "
        f"(torch.cuda.set_per_process_memory_fraction), and {show_span(balance.free)} were free"
    )
    yield Cause(name=CauseName.MEMORY_LIMIT, certainty=CauseCertainty.CERTAIN, why=why)


def _judge_fragmentation(evidence: Evidence) -> Iterator[Cause]:
    balance = evidence.balance
    requested, unallocated = balance.requested, balance.unallocated
    if requested is None or unallocated is None:
        return
    largest = evidence.failure.get(FailureQuantity.LARGEST_FREE_BLOCK)
    block = "" if largest is None else f"; the largest free block has {show_span(largest)}"
    if largest is not None and largest.low >= requested.high:
        block += ", and is of another stream or pool"
    if at_least(unallocated, requested):
        why = (
            f"{show_span(unallocated)} are reserved and unallocated, more than the "
            f"{show_span(requested)} that were requested, and no single block of them is large "
            f"enough{block}"
        )
        missing = balance.missing
        if balance.free is not None and balance.total is not None:
            left = unallocated - requested + balance.free
            why += f"; with it {show_span(left)} of {show_span(balance.total)} are left"
        # Where enough was free the driver refused, and holes are no more than a way around it.
        is_free = missing is not None and missing.high <= 0
        certainty = CauseCertainty.POSSIBLE if is_free else CauseCertainty.CERTAIN
        yield Cause(name=CauseName.FRAGMENTATION, certainty=certainty, why=why)
    elif balance.free is not None and at_least(unallocated + balance.free, requested):
        missing = balance.missing
        if missing is not None and missing.low > 0:
            why = (
                f"{show_span(unallocated)} are reserved and unallocated, and "
                f"{show_span(balance.free)} free: together more than the {show_span(requested)} "
                f"that were requested{block}"
            )
            yield Cause(name=CauseName.FRAGMENTATION, certainty=CauseCertainty.LIKELY, why=why)


def _judge_free(evidence: Evidence) -> Iterator[Cause]:
    balance = evidence.balance
    missing = balance.missing
    if missing is None or balance.limit is not None or missing.high > 0:
        return
    why = (
        f"{show_span(balance.requested)} were requested and {show_span(balance.free)} were free: "
        "the driver refused for another reason (Windows or WSL without enough page file, a limit "
        "of the container or of a virtual GPU), or somebody gave memory back in between"
    )
    yield Cause(name=CauseName.REFUSED_THOUGH_FREE, certainty=CauseCertainty.LIKELY, why=why)


def _judge_others(evidence: Evidence) -> Iterator[Cause]:
    if evidence.failure.kind == "too_little_free_at_start":
        yield explain_start(evidence)
        return
    balance = evidence.balance
    foreign, missing = balance.foreign, balance.missing
    if missing is not None and missing.low > 0 and balance.is_unsure:
        why = (
            f"process {balance.process_pid} had {show_span(balance.process)} of this GPU, and this "
            "one had allocated nothing: it may be another one"
        )
        yield Cause(name=CauseName.OTHER_PROCESS, certainty=CauseCertainty.POSSIBLE, why=why)
    if foreign.low <= 0 or missing is None:
        return
    named = balance.other_processes.low > 0
    owner = (
        f"{'process' if len(balance.other_pids) == 1 else 'processes'} "
        f"{', '.join(map(str, balance.other_pids[:8]))} "
        if named
        else "others "
    )
    decides = missing.low > 0 and at_least(foreign, missing)
    if not decides and balance.total and foreign.value < _LARGE_SHARE * balance.total.value:
        return
    why = f"{owner}had {show_span(foreign)} of this GPU" + (
        f", and {show_span(missing)} were missing" if missing.low > 0 else ""
    )
    certainty = (
        CauseCertainty.POSSIBLE
        if not decides
        else CauseCertainty.CERTAIN
        if at_least(balance.other_processes, missing)
        else CauseCertainty.LIKELY
    )
    yield Cause(name=CauseName.OTHER_PROCESS, certainty=certainty, why=why)


def _judge_outside(evidence: Evidence) -> Iterator[Cause]:
    balance = evidence.balance
    missing, outside = balance.missing, balance.outside
    if missing is None or outside is None or missing.low <= 0:
        return
    excess = outside.low - CONTEXT.high
    if excess >= missing.high:
        why = (
            f"{show_span(outside)} of this process lie outside of PyTorch's allocator, of which a "
            f"CUDA context explains {format_bytes(CONTEXT.high)}: communicators, CUDA graphs, "
            "other libraries"
        )
        yield Cause(name=CauseName.OUTSIDE_ALLOCATOR, certainty=CauseCertainty.POSSIBLE, why=why)


def _judge_libraries(evidence: Evidence) -> Iterator[Cause]:
    """Yield the cause where CUDA or its library was refused."""
    speaker = _LIBRARIES.get(evidence.failure.kind)
    if speaker is None:
        return
    requested = evidence.balance.requested
    amount = "memory" if requested is None else show_span(requested)
    why = (
        f"{speaker} asked the driver for {amount} beside the allocator of the framework, and "
        "nothing was left there"
    )
    certainty = (
        CauseCertainty.POSSIBLE
        if evidence.failure.kind == "library_handle"
        else CauseCertainty.LIKELY
    )
    yield Cause(name=CauseName.OUTSIDE_ALLOCATOR, certainty=certainty, why=why)


def _judge_growth(evidence: Evidence) -> Iterator[Cause]:
    growth = evidence.log.growth
    if growth is None:
        return
    why = (
        f"memory grew from {show_span(growth.first)} (line {growth.first_line}) to "
        f"{show_span(growth.last)} (line {growth.last_line}) over {growth.num_steps} readings, "
        f"{format_bytes(growth.bytes_per_step)} from one to the next"
    )
    missing = evidence.balance.missing
    grown = growth.last - growth.first
    certainty = (
        CauseCertainty.LIKELY
        if missing is None or grown.value >= missing.value
        else CauseCertainty.POSSIBLE
    )
    yield Cause(name=CauseName.LEAK, certainty=certainty, why=why)


def _explain_size(evidence: Evidence) -> Cause:
    """Return the cause where nothing else decides: it is too large."""
    place, requested = evidence.place, evidence.balance.requested
    name, subject = CauseName.TOO_LARGE, "what ran"
    if place is not None and (place.what in _MODEL):
        name, subject = CauseName.MODEL_TOO_LARGE, "the model with what training keeps of it"
        if place.instant == "load":
            subject = "the model"
    elif place is not None and place.what == PROFILE.what:
        name, subject = CauseName.BATCH_TOO_LARGE, "the largest batch that the engine may run"
    elif place is not None and place.instant is not None:
        name, subject = CauseName.BATCH_TOO_LARGE, "the batch, in sequences or tokens,"
    missing = evidence.balance.missing
    amount = (
        f": {show_span(missing)} were missing"
        if missing is not None and missing.low > 0
        else f": {show_span(requested)} were requested"
        if requested is not None
        else ""
    )
    where = f" at {place.what}" if place is not None else ""
    return Cause(
        name=name,
        certainty=CauseCertainty.LIKELY,
        why=f"{subject} is too large for this GPU{where}{amount}",
    )


_LIBRARIES = {
    "communicator": "NCCL",
    "library": "a library of CUDA",
    "library_handle": "a library of CUDA",
    "outside_the_allocator": "CUDA",
}
_JUDGES: tuple[Callable[[Evidence], Iterator[Cause]], ...] = (
    _judge_size,
    _judge_limit,
    judge_engine,
    _judge_fragmentation,
    _judge_others,
    _judge_free,
    _judge_growth,
    _judge_outside,
    _judge_libraries,
)
