"""What others published of how long their searches take, each with its source: nothing of it was run here."""

from dataclasses import dataclass

from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A planner, the question that its authors timed, what they say it takes, and where they say so."""

    planner: str
    question: str
    took: str
    source: str


SEARCHES = (
    Published(
        planner="AIConfigurator (NVIDIA)",
        question="serving configurations of models like Qwen3-32B and DeepSeek-V3",
        took="within 30 s on average",
        source="arXiv:2601.06288, abstract",
    ),
    Published(
        planner="Vidur-Search (Microsoft)",
        question="the best deployment of LLaMA2-70B, on a CPU",
        took="1 hour",
        source="microsoft.com/en-us/research/publication/vidur-a-large-scale-simulation-framework-for-llm-inference, abstract",
    ),
)
"""Planners whose authors say a time of a whole search; who times only a part of one is left out."""


def published() -> Table:
    """Return the published times beside what each is about; the rows of this planner are in the table of searches."""
    table = Table("planner", "question", "took", "source", title="Searches of other planners, as published")
    for one in SEARCHES:
        table.add_row(one.planner, one.question, one.took, one.source)
    return table
