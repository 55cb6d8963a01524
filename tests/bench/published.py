"""Published times of other planners' searches, with their sources.

Nothing of it was run here.
"""

from dataclasses import dataclass

from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSearch:
    """A planner's published search time.

    It has the question that its authors timed, the time they state, and the source.
    """

    planner: str
    question: str
    took: str
    source: str


SEARCHES = (
    PublishedSearch(
        planner="AIConfigurator (NVIDIA)",
        question="serving configurations of models like Qwen3-32B and DeepSeek-V3",
        took="within 30 s on average",
        source="arXiv:2601.06288, abstract",
    ),
    PublishedSearch(
        planner="Vidur-Search (Microsoft)",
        question="the best deployment of LLaMA2-70B, on a CPU",
        took="1 hour",
        source=(
            "microsoft.com/en-us/research/publication/vidur-a-large-scale-simulation-framework-for-llm-inference, "  # noqa: E501
            "abstract"
        ),
    ),
)
"""Planners whose authors state a time of a full search.

Those that time only a part of one are left out.
"""


def tabulate_published() -> Table:
    """Return the table of published times and their questions.

    The rows of this planner are in the table of searches.
    """
    table = Table(
        "planner", "question", "took", "source", title="Searches of other planners, as published"
    )
    for search in SEARCHES:
        table.add_row(search.planner, search.question, search.took, search.source)
    return table
