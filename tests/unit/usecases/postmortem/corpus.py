"""Failures that others published: their numbers, and the wording that prints them.

``corpus.jsonl`` has the numbers, each failure with the thread that it stands in and what must be
read of it; the wordings are those of the programs' sources. Host names, paths and users are left
out.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).with_name("corpus.jsonl")
_REQUEST = "CUDA out of memory. Tried to allocate {requested}"
_OLD = f"{_REQUEST} (GPU {{gpu}}; {{total}} total capacity; {{allocated}} already allocated; "
_FREE = "GPU {gpu} has a total {capacity} of {total} of which {free} is free. "
_NEW = (
    "{library} out of memory. Tried to allocate {requested}. "
    f"{_FREE}{{processes}}{{limit}}Of the allocated memory {{allocated}} is allocated by PyTorch, "
    "{pools}and {unallocated} is reserved by PyTorch but unallocated. If reserved but unallocated"
)
_RESERVED = "{free} free; {reserved} reserved in total by PyTorch)"
_SHARE = "Try increasing `gpu_memory_utilization`"
WORDINGS = {
    "torch_1_0": f"RuntimeError: {_OLD}{{free}} free; {{unallocated}} cached)",
    "torch_1_4": f"RuntimeError: {_OLD}{_RESERVED}",
    "torch_1_13": f"torch.cuda.OutOfMemoryError: {_OLD}{_RESERVED} If reserved memory is >>",
    "torch_wrapped": f"# RuntimeError: {_OLD}\n # {_RESERVED}\n # If reserved memory",
    "torch_2_1": f"torch.cuda.OutOfMemoryError: {_NEW}",
    "torch_2_3": f"torch.cuda.OutOfMemoryError: {_NEW}",
    "torch_2_5": f"torch.OutOfMemoryError: {_NEW}",
    "torch_cut": f"torch.OutOfMemoryError: {_REQUEST}. {_FREE}Including",
    "torch_requested": f"torch.OutOfMemoryError: {_REQUEST}.",
    "torch_huge": (
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB memory."
    ),
    "vllm_no_cache": f"ValueError: No available memory for the cache blocks. {_SHARE} when",
    "vllm_length_tokens": (
        "ValueError: The model's max seq len ({length}) is larger than the maximum number of "
        f"tokens that can be stored in KV cache ({{tokens}}). {_SHARE} or decreasing"
    ),
    "vllm_length_bytes": (
        "ValueError: To serve at least one request with the models's max seq len ({length}), "
        "({needed} GiB KV cache is needed, which is larger than the available KV cache memory "
        f"({{pool}} GiB).{{estimate}} {_SHARE}"
    ),
    "vllm_start": (
        "ValueError: Free memory on device {device}({free}/{total} GiB) on startup is less than "
        "desired GPU memory utilization ({share}, {budget} GiB). Decrease GPU memory utilization"
    ),
    "vllm_sampler": (
        "RuntimeError: CUDA out of memory occurred when warming up sampler with {count} dummy "
        "requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization`"
    ),
    "sglang_no_cache": (
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."
    ),
    "sglang_graphs": f"Exception: Capture cuda graph failed: {_REQUEST}. GPU {{gpu}} has",
    "llama_cpp": (
        "{prefix}ggml_backend_cuda_buffer_type_alloc_buffer: allocating {mib} MiB on device {gpu}: "
        "cudaMalloc failed: out of memory\n{prefix}{function}: failed to allocate CUDA{gpu} buffer "
        "of size {bytes}\n{prefix}{end}"
    ),
    "line": "{line}",
}
_DEFAULTS = {
    "gpu": 0,
    "library": "CUDA",
    "limit": "",
    "pools": "",
    "estimate": "",
    "device": "",
    "prefix": "",
    "function": "alloc_tensor_range",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A published failure: its source, its text and what must be read of it."""

    source: str
    text: str
    expected: dict[str, Any]


def load_corpus() -> Iterator[Published]:
    """Yield every failure of the corpus."""
    for line in CORPUS.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield Published(
            source=f"https://github.com/{row['source']}", text=render(row), expected=row["expected"]
        )


def render(row: dict[str, Any]) -> str:
    """Return the text that a program prints for the numbers of a row."""
    processes = [
        f"Process {pid} has {size} memory in use. "
        for pid, size in row.get("processes", {}).items()
    ]
    if "own" in row:
        processes.append(
            f"Including non-PyTorch memory, this process has {row['own']} memory in use. "
        )
    values = _DEFAULTS | row["numbers"] | {"processes": "".join(processes)}
    values["capacity"] = "capacty" if row["wording"] == "torch_2_1" else "capacity"
    prefix = row.get("log_prefix", "")
    text = WORDINGS[row["wording"]].format(**values)
    return "\n".join([*row.get("before", []), *_iter_traceback(row, prefix), prefix + text])


def _iter_traceback(row: dict[str, Any], prefix: str) -> Iterator[str]:
    if "frames" in row:
        yield f"{prefix}Traceback (most recent call last):"
    for file, name, code in row.get("frames", []):
        yield f'{prefix}  File "{file}", line 1, in {name}'
        if code:
            yield f"{prefix}    {code}"
