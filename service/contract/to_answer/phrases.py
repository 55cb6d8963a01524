"""Parts of an answer in words, for every reader of one."""

from collections.abc import Mapping
from typing import Any

from service.estimator.values.units import format_bytes


def format_gpu(gpu: str | Mapping[str, Any]) -> str:
    """Return a GPU by its name, else by its memory."""
    return gpu if isinstance(gpu, str) else f"a GPU of {format_bytes(gpu['memory_bytes'])}"


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
