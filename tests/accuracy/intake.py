"""Slims raw traces to the fields that are scored: ``python -m tests.accuracy.intake TRACES``.

``TRACES`` is a folder with ``train.json``, ``breadth.json``, ``infer.json``, ``fsdp.json`` and
``parameters.json`` as the tracer writes them. The files under ``tests/data/truth`` are what this
makes of them, one case a line.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.accuracy.cases import TRUTH

Raw = Mapping[str, Any]

_CONSTANT = {"device", "labels", "use_cache", "steps", "emulate_inplace_accumulation", "mode"}
"""Options that are the same in every case and have no counterpart in a question."""
_DEFAULTS: dict[str, object] = {
    "zero_grad_to_none": True,
    "grad_accum": 1,
    "keep_outputs": True,
    "logits": "last",
    "tp": 1,
}
_PHASES = ("forward", "backward", "optimizer")


def slim_step(raw: Raw, name: str) -> dict[str, object]:
    """Return a traced training step: start, peak and end of each phase of its steady step, and what
    the allocator did.
    """
    replay = raw["allocator_simulated"]
    return {
        "id": name,
        "model": raw["config"].removesuffix(".json"),
        "options": slim_options(raw["options"]),
        "trained": raw.get("params_trainable"),
        "phases": {phase: _phase(raw["phases"], phase) for phase in _PHASES},
        "steady_peak_bytes": raw["steady_peak_bytes"],
        "steady_peak_phase": raw["steady_peak_phase"].rpartition(":")[2],
        "steady_breakdown": raw["steady_breakdown"],
        "allocated_bytes": replay["default"]["max_memory_allocated"],
        "reserved_bytes": replay["default"]["max_memory_reserved"],
        "reserved_expandable_bytes": replay["expandable_segments"]["max_memory_reserved"],
    }


def _phase(phases: Raw, name: str) -> dict[str, object]:
    """Return a phase of the second step over all of its micro batches."""
    found = [
        value for key, value in phases.items() if key.startswith("s1") and key.endswith(f":{name}")
    ]
    highest = max(found, key=lambda phase: phase["peak"])
    operation = highest.get("peak_op") or highest.get("op") or ""
    return {
        "start": found[0]["start"],
        "peak": highest["peak"],
        "end": found[-1]["end"],
        "op": operation,
    }


def slim_serving(raw: Raw, name: str) -> dict[str, object]:
    """Return a traced prefill and decode: peaks and what the cache objects hold."""
    return {
        "id": name,
        "model": raw["config"].removesuffix(".json"),
        "options": slim_options(raw["options"]),
        "load_bytes": raw["param_and_buffer_bytes"],
        "prefill_bytes": raw["prefill_peak_bytes"],
        "decode_bytes": raw["decode_peak_bytes"],
        "prefill_cache_bytes": raw["after_prefill"]["storage_bytes"],
        "decode_cache_bytes": raw["after_decode"]["logical_bytes"],
    }


def slim_parameters(raw: Raw) -> dict[str, object]:
    """Return exact parameter counts of a model."""
    return {
        "model": raw["config"].removesuffix(".json"),
        "total": raw["total"],
        "active": raw.get("active_per_token", raw["total"]),
        "embedding": raw["input_embedding"],
        "by_module": raw["by_kind"],
        "num_tensors": raw["n_param_tensors"],
    }


def slim_options(options: Raw) -> dict[str, object]:
    """Return the options that say something: neither constant, nor absent, nor the default."""
    return {
        name: value
        for name, value in options.items()
        if name not in _CONSTANT
        and value is not None
        and value is not False
        and value != _DEFAULTS.get(name)
    } | {
        name: False
        for name in ("keep_outputs", "zero_grad_to_none", "reshard")
        if options.get(name) is False
    }


def _write(name: str, rows: Iterable[dict[str, object]]) -> None:
    lines = [json.dumps(row, separators=(",", ":")) for row in rows]
    (TRUTH / name).write_text("\n".join(lines) + "\n")


def main(folder: Path) -> None:
    """Write the four truth files."""

    def read(name: str) -> list[Raw]:
        raw: list[Raw] = json.loads((folder / f"{name}.json").read_bytes())
        return raw

    steps = [(f"{kind}-{row['id']}", row) for kind in ("train", "breadth") for row in read(kind)]
    _write("training.jsonl", (slim_step(row, name) for name, row in steps))
    _write(
        "ranks.jsonl", (slim_step(row, f"rank-{index}") for index, row in enumerate(read("fsdp")))
    )
    _write(
        "serving.jsonl",
        (slim_serving(row, f"serve-{index}") for index, row in enumerate(read("infer"))),
    )
    _write("parameters.jsonl", (slim_parameters(row) for row in read("parameters")))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
