"""Refusals of serving engines to start or to go on.

vLLM: vllm/worker/worker.py (raise_if_cache_size_invalid) and vllm/worker/cache_engine.py of the
first engine; vllm/v1/core/kv_cache_utils.py, vllm/v1/worker/gpu_worker.py, utils.py and
gpu_model_runner.py (_dummy_sampler_run) of the second. SGLang: model_runner.py,
model_runner_kv_cache_mixin.py, cuda_graph_runner.py. llama.cpp: ggml-cuda.cu, ggml-alloc.c,
llama-model.cpp, llama-context.cpp, llama-kv-cache.cpp.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from service.formats.failures.failure import (
    Amount,
    FailedMemory,
    Failure,
    FailureQuantity,
    FailureSpeaker,
    make_amount,
    make_exact_amount,
)
from service.formats.failures.wording import COUNT, NUMBER, SIGNED, compile_wording

MARKS = (
    "o available memory for the cache blocks",
    "max seq len",
    "desired GPU memory utilization",
    "warming up",
    "mem-fraction-static",
    "apture cuda graph failed",
    "apture CUDA graph failed",
    "cudaMalloc failed",
    "hipMalloc failed",
    "failed to allocate",
    "unable to allocate",
    "rror in memory profiling",
    "nsufficient memory",
)
"""Words by which a line is looked at, longer than any chance."""
_TWO = 2
"""Decimals that vLLM rounds its GiB to; it does not print trailing zeros."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wording:
    """Wording of a refusal, and the quantity of each of its groups."""

    speaker: FailureSpeaker
    kind: str
    pattern: re.Pattern[str]
    groups: tuple[tuple[FailureQuantity, str], ...] = ()
    subject: str = ""
    release: str = ""


def _word(
    speaker: FailureSpeaker,
    kind: str,
    pattern: str,
    *groups: tuple[FailureQuantity, str],
    subject: str = "",
    release: str = "",
) -> _Wording:
    return _Wording(
        speaker=speaker,
        kind=kind,
        pattern=compile_wording(pattern),
        groups=groups,
        subject=subject,
        release=release,
    )


_WORDINGS = (
    _word(
        FailureSpeaker.VLLM,
        "no_cache_memory",
        r"No available memory for the cache blocks",
        subject="kv_cache",
    ),
    _word(
        FailureSpeaker.VLLM,
        "length_exceeds_cache",
        rf"max seq len \({COUNT}\) is larger than the maximum number of tokens that can be stored "
        rf"in (?:the )?+KV cache \({COUNT}\)",
        (FailureQuantity.MAX_MODEL_LEN, ""),
        (FailureQuantity.KV_POOL_TOKENS, ""),
        subject="kv_cache",
        release="0.2.6 to 0.8, first engine",
    ),
    _word(
        FailureSpeaker.VLLM,
        "length_exceeds_cache",
        rf"max seq len \({COUNT}\), \(?+{NUMBER} ?+Gi?+B KV cache is needed, which is larger than "
        rf"the available KV cache memory \({NUMBER} ?+Gi?+B\)",
        (FailureQuantity.MAX_MODEL_LEN, ""),
        (FailureQuantity.KV_NEEDED, "GiB"),
        (FailureQuantity.KV_POOL, "GiB"),
        subject="kv_cache",
        release="0.8 or later",
    ),
    _word(
        FailureSpeaker.VLLM,
        "too_little_free_at_start",
        rf"Free memory on device (?:[a-z]{{1,8}}+:?+[0-9]{{0,4}}+ )?+\({NUMBER}/{NUMBER} GiB\) on "
        rf"startup is less than desired GPU memory utilization \({NUMBER}, {NUMBER} GiB\)",
        (FailureQuantity.FREE, "GiB"),
        (FailureQuantity.TOTAL, "GiB"),
        (FailureQuantity.GPU_MEMORY_FRACTION, ""),
        (FailureQuantity.BUDGET, "GiB"),
        release="0.9.1 or later",
    ),
    _word(
        FailureSpeaker.VLLM,
        "sampler_warm_up",
        rf"CUDA out of memory occurred when warming up sampler with {COUNT} dummy requests",
        (FailureQuantity.NUM_SEQUENCES, ""),
        subject="sampler_state",
        release="0.8 or later",
    ),
    _word(
        FailureSpeaker.VLLM,
        "sampler_warm_up",
        rf"CUDA out of memory occurred when warming up pooler[^0-9]{{0,40}}+{COUNT} dummy requests",
        (FailureQuantity.NUM_SEQUENCES, ""),
        subject="sampler_state",
    ),
    _word(
        FailureSpeaker.VLLM,
        "memory_changed_while_profiling",
        r"Error in memory profiling\. ",
    ),
    _word(
        FailureSpeaker.SGLANG,
        "no_cache_memory",
        r"Not enough memory\. Please try to increase --mem-fraction-static",
        subject="kv_cache",
    ),
    _word(
        FailureSpeaker.SGLANG,
        "graph_capture",
        r"Capture (?:cuda|CUDA) graph failed: (?:CUDA|HIP) (?:error: )?+out of memory",
        subject="cuda_graphs",
    ),
    _word(
        FailureSpeaker.LLAMA_CPP,
        "buffer",
        rf"allocating {NUMBER} MiB on device [0-9]{{1,3}}+: (?:cuda|hip|musa)Malloc failed: out of",
        (FailureQuantity.REQUESTED, "MiB"),
    ),
    _word(
        FailureSpeaker.LLAMA_CPP,
        "buffer",
        rf"failed to allocate (?:CUDA|ROCm|Vulkan|SYCL|Metal|MUSA)[0-9]{{0,3}}+ buffer of size "
        rf"{COUNT}",
        (FailureQuantity.REQUESTED, "bytes"),
    ),
    _word(
        FailureSpeaker.LLAMA_CPP,
        "buffer",
        r"unable to allocate (?:CUDA|ROCm|Vulkan|SYCL|Metal|MUSA|backend)[0-9]{0,3}+ buffer",
        subject="weights",
    ),
    _word(
        FailureSpeaker.LLAMA_CPP,
        "buffer",
        r"failed to allocate (?:buffer for kv cache|buffer for self-attention|kv cache)",
        subject="kv_cache",
    ),
    _word(
        FailureSpeaker.LLAMA_CPP,
        "buffer",
        r"failed to allocate compute buffers",
        subject="activations",
    ),
)
_ENGINE_MARKS = (
    ("sglang", "sglang"),
    ("SGLang", "sglang"),
    ("vllm", "vllm"),
    ("vLLM", "vllm"),
    ("Vllm", "vllm"),
    ("ggml_", "llama_cpp"),
    ("llama_model_load", "llama_cpp"),
)
_LONGEST = compile_wording(rf"estimated maximum model length is {COUNT}")
_DEVICE = compile_wording(r"(?:device (?:cuda:)?+|CUDA|ROCm)([0-9]{1,3}+)")
_FRACTION = compile_wording(rf"mem_fraction_static={NUMBER}")
_CONTEXT: Mapping[FailureQuantity, tuple[re.Pattern[str], ...]] = {
    FailureQuantity.WEIGHTS: (
        compile_wording(rf"(?:Loading model weights|Model loading) took {NUMBER} Gi?+B"),
        compile_wording(rf"\bmem usage={NUMBER} GB"),
    ),
    FailureQuantity.KV_POOL: (compile_wording(rf"Available KV cache memory: {SIGNED} GiB"),),
}
_FRACTIONS = compile_wording(
    rf"(?:gpu_memory_utilization|gpu-memory-utilization|mem_fraction_static|mem-fraction-static)"
    rf"['\"]?+(?:=|: | ){NUMBER}"
)
CONTEXT_MARKS = (
    "took ",
    "mem usage=",
    "KV cache memory: ",
    "_utilization",
    "-utilization",
    "mem_fraction",
    "mem-fraction",
)


def iter_engine_failures(text: str, *, line: int, rank: str | None) -> Iterator[Failure]:
    """Yield every refusal that a line words."""
    for wording in _WORDINGS:
        match = wording.pattern.search(text)
        if match is None:
            continue
        device = _DEVICE.search(text)
        yield Failure(
            speaker=wording.speaker,
            memory=FailedMemory.GPU,
            kind=wording.kind,
            line=line,
            amounts=(*_iter_groups(wording, match, line), *_iter_extras(text, wording, line)),
            rank=rank,
            gpu=None if device is None else int(device[1]),
            release=wording.release,
            subject=wording.subject,
        )


def iter_engine_context(text: str, *, line: int) -> Iterator[Amount]:
    """Yield what an engine printed of its memory before it failed."""
    for quantity, patterns in _CONTEXT.items():
        for pattern in patterns:
            if (match := pattern.search(text)) is not None:
                yield make_amount(quantity, match[1], "GiB", line=line, decimals=_TWO)
    if (match := _FRACTIONS.search(text)) is not None:
        yield make_exact_amount(FailureQuantity.GPU_MEMORY_FRACTION, match[1], line=line)


def name_engine(text: str) -> str | None:
    """Return the engine that a line is of."""
    for mark, name in _ENGINE_MARKS:
        if mark in text:
            return name
    return None


def _iter_groups(wording: _Wording, match: re.Match[str], line: int) -> Iterator[Amount]:
    for index, (quantity, unit) in enumerate(wording.groups, start=1):
        yield (
            make_amount(quantity, match[index], unit, line=line, decimals=_TWO)
            if unit
            else make_exact_amount(quantity, match[index], line=line)
        )


def _iter_extras(text: str, wording: _Wording, line: int) -> Iterator[Amount]:
    extras: tuple[tuple[FailureQuantity, re.Pattern[str]], ...] = (
        (FailureQuantity.LONGEST_MODEL_LEN, _LONGEST),
        (FailureQuantity.GPU_MEMORY_FRACTION, _FRACTION),
    )
    if wording.kind in {"length_exceeds_cache", "no_cache_memory"}:
        for quantity, pattern in extras:
            if (match := pattern.search(text)) is not None:
                yield make_exact_amount(quantity, match[1], line=line)


Reader = Callable[[str], Iterator[Failure]]
