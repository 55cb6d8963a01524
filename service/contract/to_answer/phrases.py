"""Parts of an answer in words or as one number."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.base.errors import InvalidRequestError
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


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCount:
    """Number of GPUs that is enough, or a sentence why none is."""

    num_gpus: int | None
    sentence: str = ""


def read_gpu_count(answer: Mapping[str, Any]) -> GpuCount:
    """Return the number of a how-many answer.

    ``answer`` is JSON of the contract. The GPUs of a family are one number where all of them need
    as many; where they differ none is the answer, and an InvalidRequestError names each.
    """
    answers: Sequence[Mapping[str, Any]] = answer.get("answers", (answer,))
    numbers = {item["num_gpus"] for item in answers}
    if len(numbers) > 1:
        each = ", ".join(f"{format_gpu(item['gpu'])}: {_format_number(item)}" for item in answers)
        message = f"this name means several GPUs, which need different numbers ({each}); name one"
        raise InvalidRequestError(message, errors=[{"field": "gpu", "message": message}])
    number = numbers.pop()
    return GpuCount(num_gpus=number, sentence=_explain(answers[0]) if number is None else "")


def _format_number(answer: Mapping[str, Any]) -> str:
    return "none is enough" if answer["num_gpus"] is None else str(answer["num_gpus"])


def _explain(answer: Mapping[str, Any]) -> str:
    """Return one line: what is too few, and why."""
    shortage = f"{format_gpu(answer['gpu'])}: {format_shortage(answer)}"
    return "; ".join(part for part in (shortage, answer["reason"]) if part)
