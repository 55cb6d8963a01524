"""A ceiling on a terminal.

The value, the layout that reaches it, what is left there, and what one more lacks.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.markup import escape

from service.cli.views.fit import describe_balance
from service.cli.views.phrases import format_assumptions, format_checkpointing, format_degrees
from service.cli.views.tables import make_console

Document = Mapping[str, Any]
_NAMES = {
    "num_sequences": "number of sequences",
    "num_images": "number of images",
    "num_parameters": "number of parameters",
    "max_model_len": "max_model_len",
    "lora_rank": "LoRA rank",
}
"""What is maximized, where its field is no phrase."""


def show_ceiling(model: str, answer: Document) -> None:
    """Print the answer about one model."""
    screen = make_console()
    word, value = (
        _NAMES.get(answer["maximize"], answer["maximize"].replace("_", " ")),
        answer["value"],
    )
    headline = (
        f"[bold red]no {word} fits[/]"
        if value is None
        else f"{word} up to [bold green]{value:,}[/]"
    )
    screen.print(f"{escape(model)}: {headline}", soft_wrap=True, markup=True)
    for line in _iter_lines(answer):
        screen.print(line, markup=False, soft_wrap=True)
    screen.print(format_assumptions(answer["assumptions"]), markup=False)


def _iter_lines(answer: Document) -> Iterator[str]:
    if answer["fit"] is not None:
        yield _describe_layout(answer)
        yield describe_balance(answer["fit"])
    yield answer["next"]["reason"]
    if answer["value"] is None and answer["next"]["value"] is not None:
        yield f"what would help is told by `headroom fit` of {answer['next']['value']:,}"
    yield f"evaluated {answer['num_evaluated']} configurations"


def _describe_layout(answer: Document) -> str:
    """Return how it runs at the ceiling, in a line."""
    workload, layout = answer["workload"], answer["layout"]
    parts = [format_degrees(layout)]
    if layout["zero_stage"]:
        parts.append(f"{layout['sharding']} stage {layout['zero_stage']}")
    if workload["task"] == "train":
        parts.append(f"checkpointing {format_checkpointing(workload)}")
    return ", ".join(parts)
