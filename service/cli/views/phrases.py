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


def format_counts(counts: Sequence[int]) -> str:
    """Return numbers as their flag takes them, such as ``4*15,1``."""
    runs = ((count, len(list(equal))) for count, equal in groupby(counts))
    return ",".join(f"{count}*{times}" if times > 1 else str(count) for count, times in runs)


def format_shortage(answer: Mapping[str, Any]) -> str:
    """Return what a search says that found no number.

    Which number would be enough, or that none is, up to the largest that was searched.
    """
    beyond, closest = answer["beyond"], answer["closest"]
    if beyond is None:
        return (
            "no number of GPUs is enough"
            if closest is None
            else f"{_format_too_few(closest['num_gpus'])} not enough"
        )
    if beyond["num_gpus"] is not None:
        too_few = _format_too_few(beyond["allowed_gpus"])
        return f"{too_few} not enough, {beyond['num_gpus']:,} are"
    return f"no number of GPUs up to {beyond['max_gpus']:,} is enough"


def _format_too_few(number: int) -> str:
    return "1 GPU is" if number == 1 else f"{number:,} GPUs are"


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
