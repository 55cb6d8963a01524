"""Values of the contract in a line of text."""

from collections.abc import Collection, Iterator, Mapping, Sequence
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


def format_change(change: Mapping[str, Any], assumptions: Sequence[str] = ()) -> str:
    """Return a change by its field paths.

    Such as ``method = lora, lora.rank = 16``. Parts of an object that stay as they were assumed are
    left out: the object is sent whole.
    """
    assumed = {_shorten_path(text) for text in assumptions}
    parts = [
        (name, f"{name} = {value:g}" if isinstance(value, float) else f"{name} = {value}")
        for name, value in _flatten(change, "")
    ]
    changed = [text for name, text in parts if not _is_assumed(name, text, assumed)]
    return ", ".join(changed or [text for _, text in parts])


def _is_assumed(name: str, text: str, assumed: Collection[str]) -> bool:
    """Return whether a part of an object is as an answer assumed."""
    section, _, part = name.rpartition(".")
    return bool(section) and (text in assumed or text.replace(f".{part}", "", 1) in assumed)


def _shorten_path(text: str) -> str:
    return text.removeprefix("workload.").removeprefix("layout.")


def format_assumptions(assumptions: Sequence[str]) -> str:
    """Return assumptions in one line, without their sections."""
    return "assumed: " + ", ".join(_shorten_path(text) for text in assumptions)


def format_batch(workload: Mapping[str, Any]) -> str:
    """Return a micro batch with its accumulation, or a server's sequences."""
    batch = workload.get("micro_batch_size", workload.get("num_sequences"))
    steps = workload.get("gradient_accumulation_steps", 1)
    return f"{batch} x {steps}" if steps > 1 else str(batch)


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
