"""Values of the contract in a line of text."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

_DEGREES = {
    "data_parallel": "data",
    "tensor_parallel": "tensor",
    "pipeline_parallel": "pipeline",
    "context_parallel": "context",
    "expert_parallel": "expert",
}


def format_degrees(layout: Mapping[str, Any]) -> str:
    """Return the parallel degrees of a layout above 1."""
    split = [f"{word} {layout[name]}" for name, word in _DEGREES.items() if layout[name] > 1]
    if "pipeline_layers" in layout:
        split.append(f"layers {format_counts(layout['pipeline_layers'])}")
    return ", ".join(split) or "one GPU"


def format_gpus(number: int) -> str:
    """Return a number of GPUs in words."""
    return f"{number} {'GPU' if number == 1 else 'GPUs'}"


def format_counts(counts: Sequence[int]) -> str:
    """Return numbers as their flag takes them, such as ``4*15,1``."""
    runs = ((count, len(list(equal))) for count, equal in groupby(counts))
    return ",".join(f"{count}*{times}" if times > 1 else str(count) for count, times in runs)


def format_change(change: Mapping[str, Any]) -> str:
    """Return a change by its field paths.

    Such as ``method = lora, lora.rank = 16``.
    """
    return ", ".join(f"{name} = {value}" for name, value in _flatten(change, ""))


def format_assumptions(assumptions: Sequence[str]) -> str:
    """Return assumptions in one line, without their sections."""
    return "assumed: " + ", ".join(
        text.removeprefix("workload.").removeprefix("layout.") for text in assumptions
    )


def format_checkpointing(workload: Mapping[str, Any]) -> str:
    """Return activation checkpointing as its flag spells it.

    ``selective:2`` for every second layer; a dash in serving.
    """
    value = workload.get("activation_checkpointing", "-")
    return f"selective:{value['selective']}" if isinstance(value, Mapping) else str(value)


def _flatten(change: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, object]]:
    for name, value in change.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{path}.")
        else:
            yield path, value
