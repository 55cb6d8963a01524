"""Refusals of serving engines, and what they printed of their memory before."""

import re
from collections.abc import Callable, Iterator, Mapping

from service.formats.failures.engine_wordings import WORDINGS, EngineWording
from service.formats.failures.failure import (
    Amount,
    FailedMemory,
    Failure,
    FailureQuantity,
    make_amount,
    make_exact_amount,
)
from service.formats.failures.wording import COUNT, NUMBER, SIGNED, compile_wording

_TWO = 2
"""Decimals that vLLM rounds its GiB to; it does not print trailing zeros."""
_ENGINE_MARKS = (
    ("sglang", "sglang"),
    ("SGLang", "sglang"),
    ("vllm", "vllm"),
    ("vLLM", "vllm"),
    ("Vllm", "vllm"),
    ("text_generation", "tgi"),
    ("ggml_", "llama_cpp"),
    ("llama_model_load", "llama_cpp"),
    ("llama runner", "llama_cpp"),
    ("turbomind", "lmdeploy"),
    ("lmdeploy", "lmdeploy"),
    ("TensorRT-LLM", "tensorrt_llm"),
    ("TRT-LLM", "tensorrt_llm"),
    ("tensorrt_llm", "tensorrt_llm"),
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
    for wording in WORDINGS:
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


def _iter_groups(wording: EngineWording, match: re.Match[str], line: int) -> Iterator[Amount]:
    for index, (quantity, unit) in enumerate(wording.groups, start=1):
        yield (
            make_amount(quantity, match[index], unit, line=line, decimals=_TWO)
            if unit
            else make_exact_amount(quantity, match[index], line=line)
        )


def _iter_extras(text: str, wording: EngineWording, line: int) -> Iterator[Amount]:
    extras: tuple[tuple[FailureQuantity, re.Pattern[str]], ...] = (
        (FailureQuantity.LONGEST_MODEL_LEN, _LONGEST),
        (FailureQuantity.GPU_MEMORY_FRACTION, _FRACTION),
    )
    if wording.kind in {"length_exceeds_cache", "no_cache_memory"}:
        for quantity, pattern in extras:
            if (match := pattern.search(text)) is not None:
                yield make_exact_amount(quantity, match[1], line=line)


Reader = Callable[[str], Iterator[Failure]]
