"""A how-many answer as one bare number, for shells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.base.errors import InvalidRequestError
from service.contract.to_answer.phrases import format_gpu, format_shortage

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCount:
    """How many GPUs are enough, None where no number is; ``sentence`` says why not."""

    num_gpus: int | None
    sentence: str = ""


def read_gpu_count(answer: Document) -> GpuCount:
    """Return the number of a how-many answer, which is JSON of the contract.

    The GPUs of a family are one number where all of them need as many; where they differ none is
    the answer, and an InvalidRequestError names each.
    """
    answers: Sequence[Document] = answer.get("answers", (answer,))
    numbers = {item["num_gpus"] for item in answers}
    if len(numbers) > 1:
        each = ", ".join(f"{format_gpu(item['gpu'])}: {_format_number(item)}" for item in answers)
        message = f"this name means several GPUs, which need different numbers ({each}); name one"
        raise InvalidRequestError(message, errors=[{"field": "gpu", "message": message}])
    number = numbers.pop()
    return GpuCount(num_gpus=number, sentence=_explain(answers[0]) if number is None else "")


def _format_number(answer: Document) -> str:
    return "none is enough" if answer["num_gpus"] is None else str(answer["num_gpus"])


def _explain(answer: Document) -> str:
    """Return one line: what is too few, and why."""
    shortage = f"{format_gpu(answer['gpu'])}: {format_shortage(answer)}"
    return "; ".join(part for part in (shortage, answer["reason"]) if part)
