"""Request and answers of GET /v1/how-many."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from service.contract.schemas.calibrations import ClusterChoice
from service.contract.schemas.fields import (
    Answer,
    Count,
    Degree,
    JsonObject,
    SearchConfidence,
    Strict,
)
from service.contract.schemas.fit import GpuReference, ModelReference
from service.contract.schemas.format_options import FormatOptionsRequest, FormatWord, ImageName
from service.contract.schemas.layouts import LayoutRequest
from service.contract.schemas.remedies import RemedyAnswer
from service.contract.schemas.workload import WorkloadRequest
from service.planner.cluster.inventory import MAX_GPUS_PER_NODE

Positive = Annotated[float, Meta(gt=0, le=1e15)]
FrameworkName = Literal[
    "transformers", "ddp", "deepspeed", "fsdp1", "fsdp2", "torchtitan", "megatron"
]
Allowance = Literal["offload", "quantization"]


class Constraints(Strict, frozen=True, kw_only=True):
    """Bounds of the search."""

    max_gpus: Annotated[
        Degree | UnsetType, Meta(description="Largest number of GPUs to try; default 1024.")
    ] = UNSET
    max_nodes: Annotated[Degree | UnsetType, Meta(description="Largest number of nodes.")] = UNSET
    gpus_per_node: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_GPUS_PER_NODE)] | UnsetType,
        Meta(
            description=(
                "GPUs of a node; any number of them within one, beyond it whole nodes. Default 8."
            )
        ),
    ] = UNSET
    global_batch_size: Annotated[
        Count | UnsetType,
        Meta(
            description="Sequences per optimizer step: micro batch x accumulation x data parallel."
        ),
    ] = UNSET
    frameworks: Annotated[
        Annotated[list[FrameworkName], Meta(min_length=1, max_length=7)] | UnsetType,
        Meta(
            description=(
                "Ways to train that may be used; `transformers` is all of its own. Default all; in "
                "how-many those of `framework`."
            )
        ),
    ] = UNSET
    allow: Annotated[
        Annotated[list[Allowance], Meta(max_length=2)] | UnsetType,
        Meta(
            description=(
                "What is used only when it is allowed: offload (training), quantised weights "
                "(serving)."
            )
        ),
    ] = UNSET
    max_cost_per_hour: Annotated[
        Positive | UnsetType, Meta(description="USD per hour of all GPUs.")
    ] = UNSET
    max_step_time_s: Annotated[
        Positive | UnsetType, Meta(description="Seconds of one optimizer step.")
    ] = UNSET
    max_hours: Annotated[
        Positive | UnsetType, Meta(description="Hours for the workload's `num_tokens`.")
    ] = UNSET
    max_prefill_time_s: Annotated[
        Positive | UnsetType, Meta(description="Serving: seconds until all prompts are read.")
    ] = UNSET
    max_time_per_output_token_s: Annotated[
        Positive | UnsetType,
        Meta(description="Serving: seconds of one decode step with the full cache."),
    ] = UNSET
    min_tokens_per_second: Annotated[
        Positive | UnsetType,
        Meta(
            description=(
                "Tokens per second of the whole job; serving: of all replicas, whose number is "
                "then searched."
            )
        ),
    ] = UNSET
    min_num_sequences: Annotated[
        Count | UnsetType,
        Meta(
            description=(
                "Serving: sequences that all replicas serve at once, `num_sequences` each; their "
                "number is searched."
            )
        ),
    ] = UNSET


class HowManyRequest(Strict, frozen=True, kw_only=True):
    """A question: how many GPUs; what is absent is searched, the framework that of a fit."""

    model: Annotated[
        ModelReference, Meta(description="Stored or catalogue name, or an inline model.")
    ]
    workload: Annotated[
        WorkloadRequest, Meta(description="What runs; what it leaves open is searched.")
    ]
    gpu: Annotated[
        GpuReference, Meta(description="Name, alias or family of the GPUs, or their memory.")
    ]
    layout: Annotated[
        LayoutRequest | UnsetType, Meta(description="What is fixed of the layout.")
    ] = UNSET
    constraints: Annotated[Constraints | UnsetType, Meta(description="Bounds of the search.")] = (
        UNSET
    )
    cluster: ClusterChoice = UNSET
    confidence: SearchConfidence = 0.95
    format: Annotated[
        Annotated[list[FormatWord], Meta(min_length=1, max_length=32)] | UnsetType,
        Meta(
            description=(
                "Formats that each candidate is rendered in, each by its word in `requests`; null "
                "there where one cannot carry the candidate, for the reason in `launch.notes`."
            )
        ),
    ] = UNSET
    container_image: Annotated[
        ImageName | UnsetType,
        Meta(
            description=(
                "With `format`: image of the pods, in place of the engine's or framework's own."
            )
        ),
    ] = UNSET
    format_options: Annotated[
        FormatOptionsRequest | UnsetType,
        Meta(description="Of the formats in `format`; one that does not take them is refused."),
    ] = UNSET


class MemoryAnswer(Answer, frozen=True, kw_only=True):
    """A GPU that was described by its memory."""

    memory_bytes: int


GpuAnswer = Annotated[
    str | MemoryAnswer, Meta(description="The GPU, as a request names or describes it.")
]


class CandidateAnswer(Answer, frozen=True, kw_only=True):
    """A configuration that is enough; sent to /v1/fit its layout and workload give the same
    bytes.
    """

    num_gpus: int
    gpu: GpuAnswer
    layout: JsonObject
    workload: JsonObject
    verdict: str
    allocated_bytes: int
    reserved_bytes: int
    device_bytes: int
    device_interval: tuple[int, int]
    headroom_bytes: int
    warnings: list[str]
    requests: Annotated[
        JsonObject | None,
        Meta(
            description=(
                "The same as requests to schedulers and launchers, as a plan has them; null where "
                "no `format` was asked for."
            )
        ),
    ]


class RejectedAnswer(Answer, frozen=True, kw_only=True):
    """A number of GPUs that is too small, and what came nearest; its instant is `layout` where no
    layout fills it.
    """

    num_gpus: int
    gpu: GpuAnswer
    reason: str
    instant: str
    component: str
    deficit_bytes: int
    missing_bytes: int


class SearchedAnswer(Answer, frozen=True, kw_only=True):
    """How much was considered, how much of it was estimated, and what needed no estimate, by
    reason.
    """

    layouts: int
    estimated: int
    pruned: dict[str, int]
    elapsed_ms: float


class BeyondAnswer(Answer, frozen=True, kw_only=True):
    """What lies beyond the GPUs that the request allows, which are too few."""

    allowed_gpus: Annotated[int, Meta(description="The largest number that the request allows.")]
    num_gpus: Annotated[
        int | None,
        Meta(description="The fewest that are enough; null where none up to `max_gpus` is."),
    ]
    max_gpus: Annotated[int, Meta(description="The largest number that was searched.")]


class HowManyAnswer(Answer, frozen=True, kw_only=True):
    """The fewest GPUs of one kind; `num_gpus` is null when no number is enough."""

    num_gpus: int | None
    gpu: GpuAnswer
    candidates: Annotated[
        list[CandidateAnswer],
        Meta(description="What is enough on that many GPUs, the fastest first."),
    ]
    rejected: Annotated[list[RejectedAnswer], Meta(description="Why each smaller number fails.")]
    searched: SearchedAnswer
    reason: Annotated[str | None, Meta(description="Why no number is enough.")]
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


class FamilyAnswer(Answer, frozen=True, kw_only=True):
    """One answer for each SKU that the name stands for."""

    answers: list[HowManyAnswer]
