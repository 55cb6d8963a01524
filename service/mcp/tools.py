"""Tools of language models: what each asks and shows."""

from collections.abc import Callable
from dataclasses import dataclass

from msgspec import Struct

from service.access.keys import Scope
from service.contract.schemas.explain.request import ExplainRequest
from service.contract.schemas.fit import FitRequest
from service.contract.schemas.how_many import HowManyRequest
from service.contract.schemas.plans import PlanRequest
from service.mcp.arguments import ListArguments, ReleaseArguments, ReserveArguments
from service.mcp.asking import Document
from service.mcp.showing import (
    Show,
    describe_fit,
    describe_number,
    describe_plan,
    show_all,
    show_explanation,
    show_fit,
    show_plan,
)

INSTRUCTIONS = """\
Headroom predicts GPU memory and time of training and serving from first principles, in bytes and
seconds. Say what is known and leave out the rest: defaults are listed in `assumptions`, which are
worth telling the user. Verdicts: fits, tight (at the point of the interval, not at its upper end),
does_not_fit. Models are named by catalogue name, Hugging Face id or address, or size ("13B");
others are given as {"hf_config": …}. A refusal says what would be right: correct the call and
repeat it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """Tool with its arguments, its question and its answer.

    ``scope`` is what a key needs for it; what needs more than to read changes something.
    """

    name: str
    title: str
    description: str
    arguments: type[Struct]
    operation: str
    describe: Callable[[Document], str]
    show: Show = show_all
    scope: Scope = Scope.READ

    @property
    def is_read_only(self) -> bool:
        """Whether it changes nothing."""
        return self.scope is Scope.READ


TOOLS: tuple[Tool, ...] = (
    Tool(
        name="fit",
        title="Does it fit?",
        description=(
            "Say whether training or serving a model fits on a GPU (or a layout of GPUs): verdict, "
            "bytes per GPU with an interval, time and throughput, and what would help where it "
            "does not fit."
        ),
        arguments=FitRequest,
        operation="fit",
        show=show_fit,
        describe=describe_fit,
    ),
    Tool(
        name="how_many",
        title="How many GPUs?",
        description=(
            "Say the least number of GPUs of one kind that a workload needs, the layout on them, "
            "and why fewer are not enough. What is left out of the layout is searched."
        ),
        arguments=HowManyRequest,
        operation="how_many",
        describe=describe_number,
    ),
    Tool(
        name="plan",
        title="Which GPUs, in which layout?",
        description=(
            "Plan on several kinds of GPU, or on a stored cluster as it is now: which, how many, "
            "in which layout, at which price and speed, by the objective that is asked for."
        ),
        arguments=PlanRequest,
        operation="plan",
        show=show_plan,
        describe=describe_plan,
    ),
    Tool(
        name="explain",
        title="Where do the bytes go?",
        description=(
            "Explain the memory of a workload: the instant that decides, every component with its "
            "formula, numbers and source, every instant of a step, and what rules of thumb leave "
            "out."
        ),
        arguments=FitRequest,
        operation="fit",
        show=show_explanation,
        describe=describe_fit,
    ),
    Tool(
        name="post_mortem",
        title="Why did it run out of memory?",
        description=(
            "Explain a failed run by its log or error message: what was requested and free, which "
            "instant, why (fragmentation, another process, an engine's share, too large a batch, "
            "host memory, …) and the smallest change that would have fitted."
        ),
        arguments=ExplainRequest,
        operation="explain",
        describe=lambda answer: f"{answer['summary']}: {answer['causes'][0]['why']}",
    ),
    Tool(
        name="list",
        title="What is known?",
        description=(
            "List models, GPUs, clusters, or families of models with what is modelled of each."
        ),
        arguments=ListArguments,
        operation="list",
        describe=lambda answer: f"{answer['num_matching']} of {answer['num_all']}",
    ),
    Tool(
        name="reserve",
        title="Reserve GPUs",
        description=(
            "Reserve GPUs of a cluster until a time, all of them or none: by pool and node, or the "
            "`placement` of a plan's candidate as it was answered."
        ),
        arguments=ReserveArguments,
        operation="reserve",
        describe=lambda answer: f"reserved {answer['num_gpus']} GPUs until {answer['expires_at']}",
        scope=Scope.PLAN,
    ),
    Tool(
        name="release",
        title="Release GPUs",
        description="End a reservation: its GPUs are free at once.",
        arguments=ReleaseArguments,
        operation="release",
        describe=lambda _answer: "released",
        scope=Scope.PLAN,
    ),
)
"""Every tool, in the order in which it is listed."""


def find_tool(name: str) -> Tool | None:
    """Return the tool of this name, if there is one."""
    return next((tool for tool in TOOLS if tool.name == name), None)
