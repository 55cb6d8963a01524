"""A ceiling on a terminal: the value, the layout that reaches it, what is left there, and what one more lacks."""

from collections.abc import Iterator, Mapping
from typing import Any

from service.cli.views.fit import balance
from service.cli.views.phrases import word_of_checkpointing, words_of_assumptions, words_of_degrees
from service.cli.views.tables import console

Document = Mapping[str, Any]


def show_ceiling(model: str, answer: Document) -> None:
    """Print the answer about one model."""
    screen = console()
    word, value = answer["maximize"].replace("_", " "), answer["value"]
    found = f"[bold red]no {word} fits[/]" if value is None else f"{word} up to [bold green]{value:,}[/]"
    screen.print(f"{model}: {found}", soft_wrap=True)
    for line in _lines(answer):
        screen.print(line, markup=False, soft_wrap=True)
    screen.print(words_of_assumptions(answer["assumptions"]), markup=False)


def _lines(answer: Document) -> Iterator[str]:
    if answer["fit"] is not None:
        yield _way(answer)
        yield balance(answer["fit"])
    yield answer["next"]["reason"]
    yield f"evaluated {answer['num_evaluated']} configurations"


def _way(answer: Document) -> str:
    """Return how it runs there, in a line."""
    workload, layout = answer["workload"], answer["layout"]
    parts = [words_of_degrees(layout)]
    if layout["zero_stage"]:
        parts.append(f"{layout['sharding']} stage {layout['zero_stage']}")
    if workload["task"] == "train":
        parts.append(f"checkpointing {word_of_checkpointing(workload)}")
    return ", ".join(parts)
