"""Request and answer of POST /v1/ceilings."""

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, defstruct
from msgspec.structs import fields

from service.contract.schemas.calibrations import ClusterChoice
from service.contract.schemas.fields import Answer, JsonObject, SearchConfidence, Strict
from service.contract.schemas.fit import FitAnswer, GpuReference, ModelReference
from service.contract.schemas.layouts import LayoutRequest
from service.contract.schemas.serving import ServeRequest
from service.contract.schemas.workload import TrainRequest
from service.planner.plans.ceiling_values import Maximized

MAX_GPUS = 1024


def _make_open_struct(struct: type[Any], name: str, tag: str) -> type[Any]:
    """Return a task's request struct with no field required.

    The field that is maximised need not be sent.
    """
    optional = [(field.name, field.type | UnsetType, UNSET) for field in fields(struct)]
    return defstruct(
        name,
        optional,
        bases=(Strict,),
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
        tag_field="task",
        tag=tag,
        module=__name__,
        namespace={"__doc__": struct.__doc__},
    )


if TYPE_CHECKING:
    CeilingWorkload = Struct
else:
    CeilingWorkload = _make_open_struct(TrainRequest, "TrainCeiling", "train") | _make_open_struct(
        ServeRequest, "ServeCeiling", "serve"
    )


class CeilingRequest(Strict, frozen=True, kw_only=True):
    """A question: the largest value that still fits.

    Absent words have the defaults of a fit; what is searched instead is named in `assumptions`.
    """

    workload: Annotated[
        CeilingWorkload, Meta(description="What runs; the word that is maximised may be left out.")
    ]
    gpu: GpuReference
    maximize: Annotated[Maximized, Meta(description="What is made as large as it goes.")]
    model: Annotated[
        ModelReference | UnsetType,
        Meta(
            description=(
                "Required, unless `num_parameters` is maximised: then its own size is not used."
            )
        ),
    ] = UNSET
    layout: LayoutRequest | UnsetType = UNSET
    num_gpus: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_GPUS)] | UnsetType,
        Meta(
            description=(
                "GPUs, in whichever layout goes furthest; absent, as many as `layout` says, "
                "replicas as it says."
            )
        ),
    ] = UNSET
    cluster: ClusterChoice = UNSET
    confidence: SearchConfidence = 0.95


class NextAnswer(Answer, frozen=True, kw_only=True):
    """The value after the ceiling: what it lacks, or why it cannot run at all."""

    value: int | None
    deficit_bytes: Annotated[
        int | None,
        Meta(
            description=(
                "Device less usable bytes, 0 when it is only tight; null where it cannot run at "
                "all."
            )
        ),
    ]
    missing_bytes: Annotated[
        int | None,
        Meta(
            description=(
                "Bytes that it lacks for the confidence, at the interval's upper end; null where "
                "it cannot run at all."
            )
        ),
    ]
    reason: str


class CeilingAnswer(Answer, frozen=True, kw_only=True):
    """The largest value, the whole answer there, and what one more lacks; `value` is null when not
    even the least fits.
    """

    value: int | None
    maximize: str
    fit: Annotated[
        FitAnswer | None,
        Meta(description="The answer of /v1/fit at the ceiling, without remedies."),
    ]
    workload: Annotated[
        JsonObject | None, Meta(description="The workload at the ceiling, complete.")
    ]
    layout: Annotated[JsonObject | None, Meta(description="The layout at the ceiling, complete.")]
    next: NextAnswer
    num_evaluated: Annotated[int, Meta(description="Configurations that were estimated.")]
    assumptions: Annotated[
        list[str], Meta(description="Every default that was used and not searched.")
    ]
