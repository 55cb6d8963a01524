"""Words of the contract in a line of text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_DEGREES = {
    "data_parallel": "data",
    "tensor_parallel": "tensor",
    "pipeline_parallel": "pipeline",
    "context_parallel": "context",
    "expert_parallel": "expert",
}


def words_of_degrees(layout: Mapping[str, Any]) -> str:
    """Return over how many ranks a layout splits what, without what is not split."""
    split = [f"{word} {layout[name]}" for name, word in _DEGREES.items() if layout[name] > 1]
    return ", ".join(split) or "one GPU"


def words_of_change(change: Mapping[str, Any]) -> str:
    """Return a change by the paths of its words: ``method = lora, lora.rank = 16``."""
    return ", ".join(f"{name} = {value}" for name, value in _flat(change, ""))


def words_of_assumptions(assumptions: Sequence[str]) -> str:
    """Return assumptions in one line, without the section that each belongs to."""
    return "assumed: " + ", ".join(text.removeprefix("workload.").removeprefix("layout.") for text in assumptions)


def word_of_checkpointing(workload: Mapping[str, Any]) -> str:
    """Return what backward computes again as its flag says it, ``selective:2`` for every second layer; a dash in serving."""
    said = workload.get("activation_checkpointing", "-")
    return f"selective:{said['selective']}" if isinstance(said, Mapping) else str(said)


def _flat(change: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, object]]:
    for name, value in change.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}.")
        else:
            yield path, value
