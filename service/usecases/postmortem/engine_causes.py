"""Causes in serving engines, whose cache takes what their share leaves."""

from collections.abc import Iterator

from service.estimator.values.units import format_bytes
from service.formats.failures.failure import FailureQuantity
from service.formats.failures.places import DECODE, GENERATE, GRAPHS, POOL, PREFILL, SAMPLER
from service.usecases.postmortem.balance import CONTEXT
from service.usecases.postmortem.evidence import Evidence, show_span
from service.usecases.postmortem.values import Cause, CauseCertainty, CauseName

_BESIDE_CACHE = frozenset(place.what for place in (GRAPHS, SAMPLER, GENERATE, PREFILL, DECODE))
"""Places that come after the cache has been made, where an engine runs."""
_REFUSALS = {
    "unbalanced": (
        CauseName.OTHER_PROCESS,
        CauseCertainty.LIKELY,
        "one GPU of the group had less than 90 % of another's free memory: somebody is on it",
    ),
    "memory_changed_while_profiling": (
        CauseName.OTHER_PROCESS,
        CauseCertainty.CERTAIN,
        "another process gave memory of this GPU back while the engine measured its own",
    ),
    "cache_full": (
        CauseName.BATCH_TOO_LARGE,
        CauseCertainty.CERTAIN,
        "the requests at work are more, or have more tokens, than the engine's pools have room for",
    ),
    "pool_too_large": (
        CauseName.CACHE_SHARE_TOO_LARGE,
        CauseCertainty.CERTAIN,
        "the KV cache of all tokens that a batch may have does not fit beside the weights",
    ),
    "executor_creation": (
        CauseName.TOO_LARGE,
        CauseCertainty.CERTAIN,
        "the cache and workspaces that the engine makes at its start do not fit beside the weights",
    ),
    "prefill_too_large": (
        CauseName.BATCH_TOO_LARGE,
        CauseCertainty.CERTAIN,
        "the pass over the prompts of one batch does not fit beside the weights",
    ),
}
"""Of refusals that say their cause themselves."""
_WITH_SHARE = frozenset({"vllm", "sglang"})
"""Engines whose cache fills a share of the GPU."""


def judge_engine(evidence: Evidence) -> Iterator[Cause]:
    """Yield the cause of an engine's refusal or failure beside its cache."""
    kind, place = evidence.failure.kind, evidence.place
    if kind in _REFUSALS:
        name, certainty, why = _REFUSALS[kind]
        yield Cause(name=name, certainty=certainty, why=why)
    elif kind == "length_exceeds_cache":
        yield Cause(
            name=CauseName.SEQUENCE_TOO_LONG,
            certainty=CauseCertainty.CERTAIN,
            why=_describe_length(evidence),
        )
    elif kind == "no_cache_memory" or (
        place is not None and place.what == POOL.what and evidence.engine in _WITH_SHARE
    ):
        pool = evidence.find(FailureQuantity.KV_POOL)
        why = "weights and the profiled peak leave nothing of the engine's share for the KV cache"
        if pool is not None and pool.value < 0:
            why += f": {format_bytes(-pool.value)} too much before the first block"
        yield Cause(name=CauseName.CACHE_SHARE_TOO_SMALL, certainty=CauseCertainty.CERTAIN, why=why)
    elif place is not None and place.what in _BESIDE_CACHE and evidence.engine in _WITH_SHARE:
        why = (
            f"{place.what} comes after the KV cache has taken the engine's share, and what is left "
            "beside it was not enough"
        )
        yield Cause(name=CauseName.CACHE_SHARE_TOO_LARGE, certainty=CauseCertainty.LIKELY, why=why)


def _describe_length(evidence: Evidence) -> str:
    length = evidence.find(FailureQuantity.MAX_MODEL_LEN)
    needed, pool = evidence.find(FailureQuantity.KV_NEEDED), evidence.find(FailureQuantity.KV_POOL)
    tokens = evidence.find(FailureQuantity.KV_POOL_TOKENS)
    subject = f"one request of {length.value:,.0f} tokens" if length else "one request"
    if needed is not None and pool is not None:
        return (
            f"{subject} needs {show_span(needed)} of KV cache, and the pool has {show_span(pool)}"
        )
    if tokens is not None:
        return f"{subject} is more than the pool's {tokens.value:,.0f} tokens"
    return f"{subject} is more than the pool holds"


def explain_start(evidence: Evidence) -> Cause:
    """Return why less was free at an engine's start than its share."""
    free, total = evidence.find(FailureQuantity.FREE), evidence.find(FailureQuantity.TOTAL)
    budget = evidence.find(FailureQuantity.BUDGET)
    assert free is not None and total is not None and budget is not None  # noqa: S101, PT018 - the wording has all three
    used = total - free
    if used.value <= CONTEXT.high:
        why = (
            f"the engine's budget is {show_span(budget)}, and {show_span(free)} of "
            f"{show_span(total)} were free before it began: its own context takes the rest"
        )
        return Cause(
            name=CauseName.CACHE_SHARE_TOO_LARGE, certainty=CauseCertainty.CERTAIN, why=why
        )
    why = (
        f"{show_span(used)} of {show_span(total)} were used before the engine began, and its "
        f"budget is {show_span(budget)}"
    )
    return Cause(name=CauseName.OTHER_PROCESS, certainty=CauseCertainty.CERTAIN, why=why)
