"""Changes that help against each cause, the smallest first.

Whether one would have fitted is said where the log's own numbers decide it. Flags are those of the
engines' command lines; ``expandable_segments`` came with PyTorch 2.1
(c10/cuda/CUDAAllocatorConfig.h).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import floor

from service.estimator.values.units import MIB
from service.formats.failures.failure import FailureQuantity
from service.formats.failures.places import LOAD, LOSS, SETUP
from service.usecases.postmortem.engine_changes import (
    change_engine,
    change_large_share,
    change_length,
    change_llama_cpp,
    change_small_share,
    change_start,
    floor_bytes,
)
from service.usecases.postmortem.engine_options import REQUESTS, SHARE, TOKENS
from service.usecases.postmortem.evidence import Evidence
from service.usecases.postmortem.values import Cause, CauseName, Change

ASK_QUESTION = "say what ran: with the question every change is estimated on the model itself"
_OLD_RELEASES = frozenset({"before 1.4", "1.4 to 2.0", "1.13 to 2.0"})
_ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF"


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
        frees_bytes=floor_bytes(balance.unallocated),
        fits=True if failure.vendor == "nvidia" else None,
    )


def _change_others(cause: CauseName, evidence: Evidence) -> Iterator[Change]:
    balance, missing = evidence.balance, evidence.balance.missing
    if evidence.failure.kind == "too_little_free_at_start":
        yield from change_start(cause, evidence)
        return
    if evidence.failure.kind == "memory_changed_while_profiling":
        action = "start engines of one GPU one after the other, and when what ran before has ended"
        yield Change(cause=cause, action=action)
        return
    pids = ", ".join(map(str, balance.other_pids[:8]))
    yield Change(
        cause=cause,
        action=f"end process {pids}, or run on a GPU of its own"
        if pids
        else "see who else is on this GPU (nvidia-smi), or run on a GPU of its own",
        frees_bytes=floor_bytes(balance.foreign),
        fits=None if missing is None else balance.foreign.low >= missing.high,
    )


def _change_model(cause: CauseName, evidence: Evidence) -> Iterator[Change]:
    place = evidence.place
    if evidence.engine == "llama_cpp":
        yield from change_llama_cpp(cause, evidence)
    elif place is not None and place.what in {LOAD.what, SETUP.what}:
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
    tokens = evidence.find(FailureQuantity.NUM_TOKENS)
    if evidence.failure.kind == "cache_full":
        yield Change(
            cause=cause,
            action=f"run fewer requests at once ({REQUESTS.get(engine or '', 'fewer clients')}), "
            f"or give the cache a larger share ({SHARE.get(engine or '', 'of the GPU')})",
        )
    elif tokens is not None:
        yield Change(
            cause=cause,
            action="take the prompts of a batch in smaller parts",
            setting=f"--max-batch-prefill-tokens {max(1, int(tokens.value) // 2)}",
        )
    elif engine == "llama_cpp":
        yield from change_llama_cpp(cause, evidence)
    elif (option := TOKENS.get(engine or "")) is not None and (
        place is None or place.instant in {"prefill", "decode", None}
    ):
        yield Change(cause=cause, action=f"run fewer tokens at once: {option}")
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


def _change_too_large(cause: CauseName, evidence: Evidence) -> Iterator[Change]:
    if evidence.engine == "llama_cpp":
        yield from change_llama_cpp(cause, evidence)
    elif evidence.engine is not None and evidence.engine in SHARE:
        yield from change_engine(cause, evidence.engine)
    else:
        yield Change(cause=cause, action="a smaller batch, shorter sequences, or a larger GPU")
    yield _ask_question(cause)


def _change_nothing(cause: CauseName, evidence: Evidence) -> Iterator[Change]:
    if evidence.failure.kind == "kernel_resources":
        action = "smaller blocks or fewer stages of the kernel, or another attention backend"
    else:
        action = "run again with CUDA_LAUNCH_BLOCKING=1, which names the kernel that failed"
    yield Change(cause=cause, action=action)


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


_CHANGES: Mapping[CauseName, Callable[[CauseName, Evidence], Iterator[Change]]] = {
    CauseName.FRAGMENTATION: _change_fragmentation,
    CauseName.OTHER_PROCESS: _change_others,
    CauseName.CACHE_SHARE_TOO_SMALL: change_small_share,
    CauseName.CACHE_SHARE_TOO_LARGE: change_large_share,
    CauseName.SEQUENCE_TOO_LONG: change_length,
    CauseName.MODEL_TOO_LARGE: _change_model,
    CauseName.BATCH_TOO_LARGE: _change_batch,
    CauseName.TOO_LARGE: _change_too_large,
    CauseName.NOT_MEMORY: _change_nothing,
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
