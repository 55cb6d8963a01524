"""Request and answers of /v1/formats."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from service.contract.schemas.calibrations import ClusterChoice
from service.contract.schemas.fields import Answer, FitConfidence, JsonObject, Strict
from service.contract.schemas.fit import GpuReference, ModelReference
from service.contract.schemas.format_options import FormatOptionsRequest, FormatWord, ImageName
from service.contract.schemas.layouts import LayoutRequest
from service.contract.schemas.workload import WorkloadRequest

FormatName = Annotated[FormatWord, Meta(description="Word of a format, as GET /v1/formats has it.")]


class RenderingRequest(Strict, frozen=True, kw_only=True):
    """A question of POST /v1/fit, to be started where it fits."""

    model: Annotated[
        ModelReference, Meta(description="Stored or catalogue name, or an inline model.")
    ]
    workload: Annotated[WorkloadRequest, Meta(description="What runs.")]
    gpu: Annotated[GpuReference, Meta(description="Name or alias of a GPU, or its memory.")]
    layout: Annotated[
        LayoutRequest | UnsetType, Meta(description="How it is spread; default one GPU.")
    ] = UNSET
    cluster: ClusterChoice = UNSET
    confidence: FitConfidence = 0.95
    container_image: Annotated[
        ImageName | UnsetType,
        Meta(description="Image of the pods, in place of the engine's or framework's own."),
    ] = UNSET
    format_options: Annotated[
        FormatOptionsRequest | UnsetType,
        Meta(description="Of the format; what it does not take is refused with a reason."),
    ] = UNSET


class RenderingAnswer(Answer, frozen=True, kw_only=True):
    """A job in a format, or why there is none."""

    format: Annotated[str, Meta(description="The format's word.", examples=["kubernetes"])]
    verdict: Annotated[
        str, Meta(description="`fits`, `tight` or `does_not_fit`.", examples=["fits"])
    ]
    document: Annotated[
        JsonObject | str | None,
        Meta(
            description=(
                "An object of the scheduler's API, a List of several, or the text of a script; "
                "null where `reason` says why there is none."
            )
        ),
    ]
    text: Annotated[
        str | None,
        Meta(
            description=(
                "The same as a file: a script as it is, objects as YAML that `kubectl apply -f` "
                "reads; null where there is none."
            )
        ),
    ]
    notes: Annotated[
        list[str], Meta(description="What of the workload no flag of the launch says.")
    ]
    reason: Annotated[
        str | None,
        Meta(
            description=(
                "Why there is none: it does not fit, or the format cannot carry it; null where "
                "there is one."
            )
        ),
    ]


class FormatAnswer(Answer, frozen=True, kw_only=True):
    """A format, and what it can carry."""

    word: Annotated[str, Meta(description="What questions call it by.", examples=["kubernetes"])]
    title: Annotated[str, Meta(description="The scheduler, and what is rendered for it.")]
    trains: Annotated[bool, Meta(description="Whether it carries jobs that end.")]
    serves: Annotated[bool, Meta(description="Whether it carries servers.")]
    spans_nodes: Annotated[bool, Meta(description="Whether one replica may span nodes.")]
    takes_slices: Annotated[bool, Meta(description="Whether it has words for MIG slices.")]
    vendors: Annotated[
        list[str] | None,
        Meta(description="Vendors of the GPUs that it has words for; null where it has for all."),
    ]
    options: Annotated[list[str], Meta(description="What of `format_options` it takes.")]


class FormatPage(Answer, frozen=True, kw_only=True):
    """One page of formats, in the order of the offer."""

    items: list[FormatAnswer]
    next_cursor: Annotated[
        str | None, Meta(description="Where the next page begins; null on the last one.")
    ]
