"""Changes that help against each cause, the smallest first.

Whether one would have fitted is said where the log's own numbers decide it. Flags are those of the
engines' command lines; ``expandable_segments`` came with PyTorch 2.1
(c10/cuda/CUDAAllocatorConfig.h).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import ceil, floor

from service.estimator.values.units import MIB, format_bytes
from service.formats.failures.failure import FailureQuantity, Span
from service.formats.failures.places import GRAPHS, LOAD, LOSS, SAMPLER, SETUP
from service.usecases.postmortem.evidence import Evidence, show_span
from service.usecases.postmortem.values import Cause, CauseName, Change

ASK_QUESTION = "say what ran: with the question every change is estimated on the model itself"
_BLOCK_TOKENS = 16
"""Tokens of a block of the engines' caches, to whose multiple a length is cut."""
_OLD_RELEASES = frozenset({"before 1.4", "1.4 to 2.0", "1.13 to 2.0"})
_ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF"
_HIGHEST_SHARE = 0.97
_SHARE_FLAGS = {"vllm": "--gpu-memory-utilization", "sglang": "--mem-fraction-static"}


def list_changes(causes: Iterable[Cause], evidence: Evidence) -> tuple[Change, ...]:
    """Return what helps against every cause, in the order of the causes."""
    return tuple(
        dict.fromkeys(
            change for cause in causes for change in _CHANGES[cause.name](cause.name, evidence)
        )
    )


def _change_fragmentation(cause: CauseName, evidence: Evidence) -> Iterator[Change]:
    balance, failure = evidence.balance, evidence.failure
    requested = balance.requested
    if failure.release in _OLD_RELEASES and requested is not None:
        size = max(21, floor(requested.low / MIB))
        yield Change(
            cause=cause,
            action=(
                "keep blocks as large as the request from being split, or take PyTorch 2.1, which "
                "has expandable segments"
            ),
            setting=f"{_ALLOCATOR}=max_split_size_mb:{size}",
        )
        return
    variable = _ALLOCATOR if failure.vendor == "nvidia" else "PYTORCH_HIP_ALLOC_CONF"
    yield Change(
        cause=cause,
        action="let the allocator's segments grow, so that its free blocks lie together",
        setting=f"{variable}=expandable_segments:True",
        frees_bytes=_round(balance.unallocated),
        fits=True if failure.vendor == "nvidia" else None,
    )


def _change_others(cause: CauseName, evidence: Evidence) -> Iterator[Change]:
    balance, missing = evidence.balance, evidence.balance.missing
    if evidence.failure.kind == "too_little_free_at_start":
        yield from _change_start(cause, evidence)
        return
    pids = ", ".join(map(str, balance.other_pids[:8]))
    yield Change(
        cause=cause,
        action=f"end process {pids}, or run on a GPU of its own"
        if pids
        else "see who else is on this GPU (nvidia-smi), or run on a GPU of its own",
        frees_bytes=_round(balance.foreign),
        fits=None if missing is None else balance.foreign.low >= missing.high,
    )


def _change_start(cause: CauseName, evidence: Evidence) -> Iterator[Change]:
    free, total = evidence.find(FailureQuantity.FREE), evidence.find(FailureQuantity.TOTAL)
    budget = evidence.find(FailureQuantity.BUDGET)
    if free is None or total is None or budget is None:
        return
    share = floor(100 * free.low / total.high) / 100
    if cause is CauseName.OTHER_PROCESS:
        yield Change(
            cause=cause,
            action="end what else is on this GPU (nvidia-smi)",
            frees_bytes=_round(total - free),
            fits=True,
        )
    if share > 0:
        yield Change(
            cause=cause,
            action="take a share that is free; the cache is smaller by the difference",
            setting=f"--gpu-memory-utilization {share:.2f}",
            fits=True,
        )


def _change_small_share(cause: CauseName, evidence: Evidence) -> Iterator[Change]:
    share = evidence.find(FailureQuantity.GPU_MEMORY_FRACTION)
    flag = _SHARE_FLAGS.get(evidence.engine or "")
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
        action="profile a smaller batch: "
        + ("--chunked-prefill-size" if evidence.engine == "sglang" else "--max-num-batched-tokens")
        + ", or --max-model-len",
    )
    yield Change(
        cause=cause,
        action="weights in fewer bits (--quantization), or over more GPUs (--tensor-parallel-size)",
    )


def _change_large_share(cause: CauseName, evidence: Evidence) -> Iterator[Change]:
    if evidence.failure.kind == "too_little_free_at_start":
        yield from _change_start(cause, evidence)
        return
    balance, missing = evidence.balance, evidence.balance.missing
    share = evidence.find(FailureQuantity.GPU_MEMORY_FRACTION)
    flag = _SHARE_FLAGS.get(evidence.engine or "", "the engine's share")
    if missing is not None and balance.total is not None and missing.high > 0:
        step = ceil(100 * missing.high / balance.total.low) / 100
        yield Change(
            cause=cause,
            action=f"lower the engine's share by {step:.2f}",
            setting=None if share is None else f"{flag} {max(0.0, share.value - step):.2f}",
            frees_bytes=_round(missing),
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


def _change_length(cause: CauseName, evidence: Evidence) -> Iterator[Change]:
    longest = _find_longest(evidence)
    if longest is not None:
        yield Change(
            cause=cause,
            action=f"admit requests of at most {longest:,} tokens",
            setting=f"--max-model-len {longest}",
            fits=True,
        )
    needed, pool = evidence.find(FailureQuantity.KV_NEEDED), evidence.find(FailureQuantity.KV_POOL)
    more = "" if needed is None or pool is None else f" by {show_span(needed - pool)} of the GPU"
    yield Change(cause=cause, action=f"raise --gpu-memory-utilization{more}")
    yield Change(cause=cause, action="a cache of 8 bits", setting="--kv-cache-dtype fp8")


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


def _change_model(cause: CauseName, evidence: Evidence) -> Iterator[Change]:
    place = evidence.place
    if place is not None and place.what in {LOAD.what, SETUP.what}:
        yield Change(cause=cause, action="weights in fewer bits, or over more GPUs")
    else:
        yield Change(
            cause=cause,
            action="optimizer states in 8 bits or paged (optimizer = paged_adamw_8bit), over more "
            "GPUs (zero_stage 1 or more), or an adapter in place of all weights (method = lora)",
        )
    yield _ask_question(cause)


def _change_batch(cause: CauseName, evidence: Evidence) -> Iterator[Change]:
    place, engine = evidence.place, evidence.engine
    if engine is not None and (place is None or place.instant in {"prefill", "decode", None}):
        yield Change(
            cause=cause,
            action="run fewer tokens at once: "
            + ("--chunked-prefill-size" if engine == "sglang" else "--max-num-batched-tokens"),
        )
    elif place is not None and place.what == LOSS.what:
        yield Change(
            cause=cause,
            action="a loss that never holds all logits (Liger's or a chunked one), or a smaller "
            "micro_batch_size",
        )
    elif place is not None and place.instant in {"prefill", "decode"}:
        yield Change(cause=cause, action="fewer or shorter sequences at once")
    else:
        yield Change(
            cause=cause,
            action="a smaller micro_batch_size with more accumulation, activation_checkpointing, "
            "or shorter sequences",
        )
    yield _ask_question(cause)


def _change_too_large(cause: CauseName, _evidence: Evidence) -> Iterator[Change]:
    yield Change(cause=cause, action="a smaller batch, shorter sequences, or a larger GPU")
    yield _ask_question(cause)


def _ask_question(cause: CauseName) -> Change:
    return Change(
        cause=cause,
        action=ASK_QUESTION,
    )


def _make_advice(*actions: str) -> Callable[[CauseName, Evidence], Iterator[Change]]:
    def advise(cause: CauseName, _evidence: Evidence) -> Iterator[Change]:
        for action in actions:
            yield Change(cause=cause, action=action)

    return advise


def _round(span: Span | None) -> int | None:
    return None if span is None else max(0, int(span.low))


_CHANGES: Mapping[CauseName, Callable[[CauseName, Evidence], Iterator[Change]]] = {
    CauseName.FRAGMENTATION: _change_fragmentation,
    CauseName.OTHER_PROCESS: _change_others,
    CauseName.CACHE_SHARE_TOO_SMALL: _change_small_share,
    CauseName.CACHE_SHARE_TOO_LARGE: _change_large_share,
    CauseName.SEQUENCE_TOO_LONG: _change_length,
    CauseName.MODEL_TOO_LARGE: _change_model,
    CauseName.BATCH_TOO_LARGE: _change_batch,
    CauseName.TOO_LARGE: _change_too_large,
    CauseName.NOT_MEMORY: _make_advice(
        "run again with CUDA_LAUNCH_BLOCKING=1, which names the kernel that failed"
    ),
    CauseName.HOST_MEMORY: _make_advice(
        "ask for more memory of the node (--mem, resources.limits.memory), keep less of the "
        "weights and states there, or load with fewer workers"
    ),
    CauseName.SHARED_MEMORY: _make_advice(
        "a larger /dev/shm (docker run --shm-size, an emptyDir of medium Memory), or fewer workers"
    ),
    CauseName.IMPOSSIBLE_SIZE: _make_advice("look at the shape of the tensor in the traceback"),
    CauseName.LARGER_THAN_GPU: _make_advice(
        "split this tensor: a smaller batch, shorter sequences, or attention that keeps no scores "
        "(flash)"
    ),
    CauseName.SMALLER_GPU: _make_advice("ask again with the GPU that it ran on"),
    CauseName.MEMORY_LIMIT: _make_advice("raise or drop set_per_process_memory_fraction"),
    CauseName.REFUSED_THOUGH_FREE: _make_advice(
        "look at the driver's side: the page file on Windows, the limits of the container or of "
        "the virtual GPU, and dmesg"
    ),
    CauseName.OUTSIDE_ALLOCATOR: _make_advice(
        "leave room beside the allocator: a smaller batch, a smaller share of an engine, or "
        "torch.cuda.set_per_process_memory_fraction; NCCL_BUFFSIZE bounds what NCCL takes"
    ),
    CauseName.LEAK: _make_advice(
        "find what keeps tensors from step to step: losses that are added without item(), lists of "
        "outputs with their graphs, caches of growing lengths; a memory snapshot shows it"
    ),
}
