"""Changes that help a serving engine, by its flags."""

from collections.abc import Iterator
from math import ceil, floor

from service.estimator.values.units import format_bytes
from service.formats.failures.failure import FailureQuantity, Span
from service.formats.failures.places import GRAPHS, SAMPLER
from service.usecases.postmortem.engine_options import CACHE, LENGTH, REQUESTS, SHARE, TOKENS
from service.usecases.postmortem.evidence import Evidence, show_span
from service.usecases.postmortem.values import CauseName, Change

_BLOCK_TOKENS = 16
"""Tokens of a block of the engines' caches, to whose multiple a length is cut."""
_HIGHEST_SHARE = 0.97


def change_start(cause: CauseName, evidence: Evidence) -> Iterator[Change]:
    """Yield what lets an engine start on what is free."""
    free, total = evidence.find(FailureQuantity.FREE), evidence.find(FailureQuantity.TOTAL)
    budget = evidence.find(FailureQuantity.BUDGET)
    if free is None or total is None or budget is None:
        return
    share = floor(100 * free.low / total.high) / 100
    if cause is CauseName.OTHER_PROCESS:
        yield Change(
            cause=cause,
            action="end what else is on this GPU (nvidia-smi)",
            frees_bytes=floor_bytes(total - free),
            fits=True,
        )
    if share > 0:
        yield Change(
            cause=cause,
            action="take a share that is free; the cache is smaller by the difference",
            setting=f"--gpu-memory-utilization {share:.2f}",
            fits=True,
        )


def change_small_share(cause: CauseName, evidence: Evidence) -> Iterator[Change]:
    """Yield what leaves a cache of an engine's share."""
    share = evidence.find(FailureQuantity.GPU_MEMORY_FRACTION)
    engine = evidence.engine or "vllm"
    flag = SHARE.get(evidence.engine or "")
    if flag is not None and (share is None or share.value < _HIGHEST_SHARE):
        pool = evidence.find(FailureQuantity.KV_POOL)
        more = (
            f", by more than {format_bytes(-pool.value)}"
            if pool is not None and pool.value < 0
            else ""
        )
        now = "" if share is None else f" (it is {share.value:g})"
        yield Change(cause=cause, action=f"raise the engine's share{more}: {flag}{now}")
    yield Change(
        cause=cause,
        action=f"profile a smaller batch: {TOKENS.get(engine, TOKENS['vllm'])}, or "
        f"{LENGTH.get(engine, LENGTH['vllm'])}",
    )
    yield Change(
        cause=cause,
        action="weights in fewer bits (--quantization), or over more GPUs (--tensor-parallel-size)",
    )


def change_large_share(cause: CauseName, evidence: Evidence) -> Iterator[Change]:
    """Yield what leaves room beside an engine's cache."""
    if evidence.failure.kind == "too_little_free_at_start":
        yield from change_start(cause, evidence)
        return
    tokens = evidence.failure.get(FailureQuantity.KV_POOL_TOKENS)
    if evidence.failure.kind == "pool_too_large" and tokens is not None:
        yield Change(
            cause=cause,
            action=f"leave out --max-batch-total-tokens {tokens.value:,.0f}, or lower it: without "
            "it the launcher takes what has room",
        )
        return
    balance, missing = evidence.balance, evidence.balance.missing
    share = evidence.find(FailureQuantity.GPU_MEMORY_FRACTION)
    flag = SHARE.get(evidence.engine or "", "the engine's share")
    if missing is not None and balance.total is not None and missing.high > 0:
        step = ceil(100 * missing.high / balance.total.low) / 100
        yield Change(
            cause=cause,
            action=f"lower the engine's share by {step:.2f}",
            setting=None if share is None else f"{flag} {max(0.0, share.value - step):.2f}",
            frees_bytes=floor_bytes(missing),
            fits=True,
        )
    else:
        yield Change(cause=cause, action=f"lower {flag}")
    place = None if evidence.place is None else evidence.place.what
    if place == GRAPHS.what:
        yield Change(
            cause=cause,
            action="capture fewer graphs: "
            + ("--cuda-graph-max-bs" if evidence.engine == "sglang" else "--max-num-seqs")
            + ", or none at all: "
            + ("--disable-cuda-graph" if evidence.engine == "sglang" else "--enforce-eager"),
        )
    elif place == SAMPLER.what:
        count = evidence.find(FailureQuantity.NUM_SEQUENCES)
        yield Change(
            cause=cause,
            action="sample fewer sequences at once",
            setting=None if count is None else f"--max-num-seqs {max(1, int(count.value) // 2)}",
        )


def change_engine(cause: CauseName, engine: str) -> Iterator[Change]:
    """Yield what takes less of an engine's cache and step."""
    yield Change(cause=cause, action=f"a smaller share for the cache: {SHARE[engine]}")
    options = ", ".join((TOKENS[engine], REQUESTS[engine], LENGTH[engine]))
    yield Change(
        cause=cause, action=f"fewer tokens and requests at once, or shorter ones: {options}"
    )
    yield Change(cause=cause, action="weights in fewer bits, or over more GPUs")


def change_llama_cpp(cause: CauseName, evidence: Evidence) -> Iterator[Change]:
    """Yield what takes less of llama.cpp's buffers on the GPU."""
    subject = evidence.failure.subject
    if subject == "kv_cache":
        yield Change(cause=cause, action="a shorter context (-c), or fewer slots (-np)")
        yield Change(cause=cause, action="a cache of 8 bits: -fa on -ctk q8_0 -ctv q8_0")
    elif subject == "activations":
        yield Change(cause=cause, action="smaller batches: -b, -ub")
    yield Change(
        cause=cause, action="fewer layers on the GPU (-ngl), or a file of weights in fewer bits"
    )


def change_length(cause: CauseName, evidence: Evidence) -> Iterator[Change]:
    """Yield what lets the longest request into the cache."""
    longest = _find_longest(evidence)
    if longest is not None:
        yield Change(
            cause=cause,
            action=f"admit requests of at most {longest:,} tokens",
            setting=f"{LENGTH.get(evidence.engine or '', LENGTH['vllm'])} {longest}",
            fits=True,
        )
    needed, pool = evidence.find(FailureQuantity.KV_NEEDED), evidence.find(FailureQuantity.KV_POOL)
    more = "" if needed is None or pool is None else f" by {show_span(needed - pool)} of the GPU"
    engine = evidence.engine or "vllm"
    if longest is None and engine in LENGTH:
        yield Change(cause=cause, action=f"admit shorter requests: {LENGTH[engine]}")
    if engine in SHARE:
        yield Change(cause=cause, action=f"raise {SHARE[engine]}{more}")
    if engine in CACHE:
        yield Change(cause=cause, action="a cache of 8 bits", setting=CACHE[engine])


def _find_longest(evidence: Evidence) -> int | None:
    """Return the longest request that the pool holds.

    The engine says it itself, or in tokens; else it is in proportion, which is exact where every
    layer keeps every token.
    """
    longest = evidence.find(FailureQuantity.LONGEST_MODEL_LEN)
    if longest is not None:
        return int(longest.value)
    tokens = evidence.find(FailureQuantity.KV_POOL_TOKENS)
    if tokens is not None:
        return int(tokens.value)
    length = evidence.find(FailureQuantity.MAX_MODEL_LEN)
    needed, pool = evidence.find(FailureQuantity.KV_NEEDED), evidence.find(FailureQuantity.KV_POOL)
    if length is None or needed is None or pool is None or needed.high <= 0:
        return None
    tokens_of_pool = int(length.value * pool.low / needed.high)
    return max(0, tokens_of_pool // _BLOCK_TOKENS * _BLOCK_TOKENS) or None


def floor_bytes(span: Span | None) -> int | None:
    """Return the fewest whole bytes of a span, never negative."""
    return None if span is None else max(0, int(span.low))
