"""vLLM's start-up log: weights, profiling and the remaining pool.

Wordings of 0.4 to 0.29 (vllm/worker/worker.py and model_runner.py of the first engine;
vllm/v1/worker/gpu_worker.py, gpu_model_runner.py, vllm/v1/core/kv_cache_utils.py and
vllm/utils/mem_utils.py of the second). The oldest divide by 2^30 for their "GB".
"""

import re
from collections.abc import Iterable, Mapping

from service.formats.measured.engines import (
    OUT_OF_MEMORY,
    Line,
    Wording,
    find_settings,
    iter_ranked_lines,
    make_token_reading,
    read_wordings,
    select_finest,
)
from service.formats.measured.reading import (
    Format,
    LeftOut,
    MeasuredFormatError,
    Parsed,
    Quantity,
    Reading,
)

DEFAULT_BLOCK_TOKENS = 16
"""Tokens of one block on CUDA unless --block-size says otherwise (vllm/config/cache.py)."""

_RANK = re.compile(
    r"\(((?:RayWorkerWrapper|VllmWorkerProcess|VllmWorker|Worker[A-Za-z0-9_]{0,40}+|EngineCore[A-Za-z0-9_]{0,40}+)[^()]{0,40}+)\)"
)
_NUMBER = r"(-?+[0-9.]{1,20}+) ?+Gi?+B"
"""Bounded and possessive: a line of digits would else be read again from each of them."""
WORDINGS = tuple(
    Wording(quantity=quantity, pattern=re.compile(pattern))
    for quantity, pattern in (
        (Quantity.WEIGHTS, rf"(?:Loading model weights|Model loading) took {_NUMBER}"),
        (Quantity.WEIGHTS, rf"model weights take {_NUMBER}"),
        (Quantity.WEIGHTS, rf"weights memory: {_NUMBER}"),
        (Quantity.KV_POOL, rf"Available KV cache memory: {_NUMBER}"),
        (Quantity.KV_POOL, rf"reserved for KV Cache is {_NUMBER}"),
        (Quantity.KV_POOL, rf"\bkv_cache_size={_NUMBER}"),
        (Quantity.KV_POOL_TOKENS, r"GPU KV cache size: ([0-9][0-9,]{0,18}) tokens"),
        (Quantity.PROFILED_PEAK, rf"PyTorch activation peak memory takes {_NUMBER}"),
        (Quantity.PROFILED_PEAK, rf"torch peak memory increase: {_NUMBER}"),
        (Quantity.PROFILED_PEAK, rf"{_NUMBER} for peak activation"),
        (Quantity.NON_TORCH, rf"non_torch_memory(?: takes |=){_NUMBER}"),
        (Quantity.NON_TORCH, rf"non-torch forward increase memory: {_NUMBER}"),
        (Quantity.CUDA_GRAPHS, rf"Graph capturing finished in [0-9]+ secs?, took {_NUMBER}"),
        (Quantity.CUDA_GRAPHS, rf"CUDA graph pool memory: {_NUMBER} \(actual\)"),
        (Quantity.BUDGET, rf"gpu_memory_utilization \([0-9.]+\) = {_NUMBER}"),
        (Quantity.BUDGET, rf"Desired GPU memory utilization is \([0-9.]+, {_NUMBER}\)"),
        (Quantity.BUDGET, rf"Requested memory: [0-9.]+ \(util\), {_NUMBER}"),
    )
)
_BLOCKS = re.compile(r"# (?:GPU|CUDA) blocks: ([0-9]{1,12})")
_CONCURRENCY = re.compile(
    r"Maximum concurrency for ([0-9][0-9,]{0,18}) tokens per request: ([0-9.]{1,20}+)x"
)
_VERSION = re.compile(
    r"(?:vLLM API server version|Initializing an? (?:V[01] )?LLM engine) \(?v?([0-9][0-9A-Za-z.+]{0,40})\)?"  # noqa: E501
)
_SETTINGS: Mapping[str, re.Pattern[str]] = {
    "model": re.compile(r"\bmodel='([^']{1,300})'"),
    "dtype": re.compile(r"\bdtype=(?:torch\.)?([a-z0-9]+)"),
    "max_model_len": re.compile(r"\bmax_(?:seq|model)_len=([0-9]{1,9})\b"),
    "tensor_parallel": re.compile(r"\btensor_parallel_size=([0-9]{1,5})\b"),
    "pipeline_parallel": re.compile(r"\bpipeline_parallel_size=([0-9]{1,5})\b"),
    "kv_cache_dtype": re.compile(r"\bkv_cache_dtype=([a-z0-9_]+)"),
    "enforce_eager": re.compile(r"\benforce_eager=(True|False)"),
    "gpu_memory_fraction": re.compile(
        r"gpu_memory_utilization['\"]?(?:=|: | \()([0-9]\.[0-9]{1,4})"
    ),
    "max_num_batched_tokens": re.compile(r"\bmax_num_batched_tokens['\"]?(?:=|: )([0-9]{1,9})\b"),
    "max_num_sequences": re.compile(r"\bmax_num_seqs['\"]?(?:=|: )([0-9]{1,9})\b"),
    "block_size": re.compile(r"\bblock_size['\"]?(?:=|: )([0-9]{1,5})\b"),
}
_DTYPES = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
}
_COUNTS = (
    "max_model_len",
    "tensor_parallel",
    "pipeline_parallel",
    "max_num_batched_tokens",
    "max_num_sequences",
)


def parse_vllm(text: str) -> Parsed:
    """Return the readings of every rank of one start of vLLM."""
    lines = list(iter_ranked_lines(text, _RANK))
    parts = [part for line in lines for part in read_wordings(line, WORDINGS)]
    readings = [part for part in parts if isinstance(part, Reading)]
    settings = _read_settings(lines)
    version = next((match[1] for line in lines if (match := _VERSION.search(line.text))), None)
    notes: list[str] = []
    if not any(reading.quantity is Quantity.KV_POOL_TOKENS for reading in readings):
        readings += _read_block_tokens(lines, settings, notes)
    if not readings:
        message = (
            "no line says what the weights or the cache took; expected vLLM's start-up log, "
            'with lines such as "Model loading took 14.99 GiB" and "GPU KV cache size: 405,568 '
            'tokens"'
        )
        raise MeasuredFormatError(message)
    environment = {"engine": "vllm"} | ({} if version is None else {"vllm": version})
    environment |= {"model": settings["model"]} if "model" in settings else {}
    return Parsed(
        format=Format.VLLM,
        readings=select_finest(readings),
        left_out=tuple(part for part in parts if isinstance(part, LeftOut)),
        environment=environment,
        settings=_convert_settings(settings),
        notes=tuple(notes),
        out_of_memory=any(OUT_OF_MEMORY.search(line.text) for line in lines),
    )


def _read_settings(lines: Iterable[Line]) -> dict[str, str]:
    """Return each setting by the last line that names it.

    The resolved configuration follows the requested one.
    """
    settings: dict[str, str] = {}
    for line in lines:
        if "=" in line.text or "': " in line.text:
            settings |= find_settings(line.text, _SETTINGS)
    return settings


def _convert_settings(settings: Mapping[str, str]) -> dict[str, str | int | float | bool]:
    converted: dict[str, str | int | float | bool] = {
        name: int(settings[name]) for name in _COUNTS if name in settings
    }
    if "gpu_memory_fraction" in settings:
        converted["gpu_memory_fraction"] = float(settings["gpu_memory_fraction"])
    if settings.get("dtype") in _DTYPES:
        converted["weight_dtype"] = _DTYPES[settings["dtype"]]
    if settings.get("kv_cache_dtype", "").startswith("fp8"):
        converted["kv_cache_dtype"] = "fp8"
    if "enforce_eager" in settings:
        converted["enforce_eager"] = settings["enforce_eager"] == "True"
    return converted


def _read_block_tokens(
    lines: Iterable[Line], settings: Mapping[str, str], notes: list[str]
) -> list[Reading]:
    """Return the pool's tokens computed from its blocks.

    Releases before 0.8 log nothing else.
    """
    readings: list[Reading] = []
    size = int(settings.get("block_size", DEFAULT_BLOCK_TOKENS))
    for line in lines:
        if (blocks := _BLOCKS.search(line.text)) is not None:
            readings.append(make_token_reading(int(blocks[1]) * size, line))
            default = (
                "" if "block_size" in settings else ", the default, as the log names no block size"
            )
            notes.append(f"tokens of the pool: {int(blocks[1]):,} blocks x {size} tokens{default}")
        elif readings and (concurrency := _CONCURRENCY.search(line.text)) is not None:
            notes += _check_concurrency(readings[-1], concurrency)
    return readings


def _check_concurrency(pool: Reading, concurrency: re.Match[str]) -> list[str]:
    """Return a warning where logged concurrency contradicts the tokens.

    The tokens are those that the log's blocks make.
    """
    length, times = (
        int(concurrency[1].replace(",", "")),
        float(concurrency[2]) if concurrency[2].count(".") <= 1 and concurrency[2] != "." else 0.0,
    )
    if not length or abs(pool.value / length - times) <= 0.01:  # noqa: PLR2004 - it is printed with two decimals
        return []
    return [
        (
            f"the log's concurrency of {concurrency[2]}x for {length:,} tokens is not "
            f"{pool.value:,} / {length:,}: another block size?"
        )
    ]
