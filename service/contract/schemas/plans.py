"""Request and answer of POST /v1/plans."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from service.contract.schemas.fields import (
    Answer,
    GpuName,
    JsonObject,
    Name,
    SearchConfidence,
    Strict,
)
from service.contract.schemas.fit import FitAnswer, GpuReference, ModelReference
from service.contract.schemas.format_options import FormatOptionsRequest, FormatWord, ImageName
from service.contract.schemas.how_many import (
    BeyondAnswer,
    Constraints,
    GpuAnswer,
    RejectedAnswer,
    SearchedAnswer,
)
from service.contract.schemas.layouts import LayoutRequest
from service.contract.schemas.remedies import RemedyAnswer
from service.contract.schemas.reservations import NeverAnswer, NotTodayAnswer, PlacedAnswer
from service.contract.schemas.workload import WorkloadRequest
from service.planner.plans.objectives import Objective


class PlanRequest(Strict, frozen=True, kw_only=True):
    """A question: the best set of GPUs and the layout on it; what is absent is searched."""

    model: Annotated[
        ModelReference, Meta(description="Stored or catalogue name, or an inline model.")
    ]
    workload: Annotated[
        WorkloadRequest, Meta(description="What runs; what it says is kept to the letter.")
    ]
    gpus: Annotated[
        Annotated[list[GpuReference], Meta(min_length=1, max_length=16)] | UnsetType,
        Meta(
            description=(
                "Kinds of GPUs in the order in which you would like them; a family name stands for "
                "its SKUs."
            )
        ),
    ] = UNSET
    cluster: Annotated[
        Name | UnsetType,
        Meta(
            description="In place of `gpus`: a stored cluster, with what is free on it; what was "
            "measured there comes first, as in a fit that names it."
        ),
    ] = UNSET
    layout: Annotated[
        LayoutRequest | UnsetType, Meta(description="What of the layout is fixed.")
    ] = UNSET
    objective: Annotated[
        Objective,
        Meta(
            description=(
                "What the plan is best at. Of equal ones, the one with the most tokens per second "
                "of the whole job; of equally fast ones, the simplest."
            )
        ),
    ] = Objective.FEWEST_GPUS
    confidence: SearchConfidence = 0.95
    constraints: Annotated[Constraints | UnsetType, Meta(description="Bounds of the search.")] = (
        UNSET
    )
    prices: Annotated[
        dict[GpuName, Annotated[float, Meta(ge=0, le=1e9)]] | UnsetType,
        Meta(description="USD per GPU hour, in place of the price book's."),
    ] = UNSET
    pareto: Annotated[
        bool, Meta(description="Ask for the front of memory, time and cost as well.")
    ] = False
    format: Annotated[
        Annotated[list[FormatWord], Meta(min_length=1, max_length=32)] | UnsetType,
        Meta(
            description=(
                "Formats that `requests` of each candidate has as well, each by its word; null "
                "there where one cannot carry the candidate, for the reason in `launch.notes`."
            )
        ),
    ] = UNSET
    container_image: Annotated[
        ImageName | UnsetType,
        Meta(description="Image of the pods, in place of the engine's or framework's own."),
    ] = UNSET
    format_options: Annotated[
        FormatOptionsRequest | UnsetType,
        Meta(description="Of the formats in `format`; one that does not take them is refused."),
    ] = UNSET


class PlanCandidate(Answer, frozen=True, kw_only=True):
    """A plan; sent to /v1/fit with the model, the GPU and any cluster its layout and workload
    give the same answer.
    """

    num_gpus: int
    gpu: GpuAnswer
    layout: JsonObject
    workload: JsonObject
    fit: FitAnswer
    step_time_s: Annotated[
        float | None,
        Meta(
            description=(
                "Seconds of one optimizer step, or of one decode step with the full cache; null "
                "where the GPU's rates are not known."
            )
        ),
    ]
    tokens_per_second: Annotated[
        float | None,
        Meta(
            description=(
                "Tokens of the whole job per second; null where the GPU's rates are not known."
            )
        ),
    ]
    cost_per_hour: Annotated[
        float | None, Meta(description="USD, of all GPUs; null where nobody told the price.")
    ]
    cost_of_run: Annotated[
        float | None,
        Meta(
            description=(
                "USD for the workload's `num_tokens`, which `cheapest` compares where they are "
                "said; null without them or a price."
            )
        ),
    ]
    price_source: Annotated[
        str | None,
        Meta(description="Where the price is from, and of when; null where there is none."),
    ]
    placement: Annotated[
        PlacedAnswer | NotTodayAnswer | NeverAnswer | None,
        Meta(
            description="Nodes of the cluster, or who is on them; null where no cluster was named."
        ),
    ]
    requests: Annotated[
        JsonObject | None,
        Meta(
            description=(
                "The same as requests to schedulers and launchers; null where there is nothing to "
                "launch."
            )
        ),
    ]


class AlternativeAnswer(Answer, frozen=True, kw_only=True):
    """The best plan on one kind of GPU."""

    gpu: GpuAnswer
    pool: Annotated[
        str | None, Meta(description="The pool of the cluster; null where the plan is on none.")
    ]
    num_gpus: int | None
    step_time_s: float | None
    tokens_per_second: Annotated[
        float | None, Meta(description="Of the whole plan; null where nothing is timed.")
    ]
    cost_per_hour: float | None
    cost_of_run: Annotated[
        float | None, Meta(description="USD for the workload's `num_tokens`; null without them.")
    ]
    device_bytes: int | None
    reason: Annotated[str | None, Meta(description="Why there is none; null where there is one.")]


class ParetoAnswer(Answer, frozen=True, kw_only=True):
    """A plan that no other beats in memory per GPU, time per token and cost at once, nor, of
    replicas, in the time of a decode step.
    """

    num_gpus: int
    gpu: GpuAnswer
    device_bytes: int
    step_time_s: float | None
    tokens_per_second: float | None
    cost_per_hour: float | None
    layout: JsonObject
    workload: JsonObject


class PlanAnswer(Answer, frozen=True, kw_only=True):
    """The best plans; `num_gpus` is null when none is enough."""

    model: Annotated[
        str | None,
        Meta(description="Name of the model; null where it came inline, or with another head."),
    ]
    num_gpus: int | None
    gpu: Annotated[GpuAnswer | None, Meta(description="The kind of GPU of the best plan.")]
    objective: str
    confidence: float | None
    candidates: Annotated[list[PlanCandidate], Meta(description="The best first.")]
    alternatives: Annotated[
        list[AlternativeAnswer], Meta(description="Per kind of GPU, in the order of the request.")
    ]
    rejected: Annotated[
        list[RejectedAnswer], Meta(description="Why each smaller number fails, per kind of GPU.")
    ]
    pareto: Annotated[
        list[ParetoAnswer] | None, Meta(description="The front, where it was asked for.")
    ]
    searched: SearchedAnswer
    reason: Annotated[
        str | None, Meta(description="Why nothing is enough, or why the best does not run today.")
    ]
    beyond: Annotated[
        BeyondAnswer | None,
        Meta(
            description=(
                "Where nothing is enough: what more GPUs would do; null where the request fixes "
                "their number or a cluster has no more."
            )
        ),
    ]
    closest: Annotated[RejectedAnswer | None, Meta(description="The closest miss.")]
    smallest_change: Annotated[
        RemedyAnswer | None, Meta(description="The smallest change that would help.")
    ]
    assumptions: Annotated[
        list[str], Meta(description="Every default that was used and not searched.")
    ]
    warnings: Annotated[
        list[str],
        Meta(
            description=(
                "On a cluster: nodes that nobody has seen for an hour, and GPUs that are shared or "
                "of unknown memory."
            )
        ),
    ]
