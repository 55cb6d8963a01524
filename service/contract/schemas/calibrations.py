"""Queries and answers of /v1/calibrations and /v1/accuracy; what an answer rests on."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from service.contract.schemas.fields import (
    Answer,
    CalibrationKey,
    Cursor,
    GpuName,
    Name,
    PageLimit,
    Strict,
    Word,
)
from service.jobs.contract import ProbeDevice

Quantity = Literal["allocated", "reserved", "device", "step_time", "prefill_time"]
Moment = Annotated[datetime, Meta(tz=True)]


class CalibrationQuery(Strict, frozen=True, kw_only=True):
    """Which calibrations, and which page of them."""

    key: Annotated[CalibrationKey | UnsetType, Meta(description="Only those of this key.")] = UNSET

    limit: Annotated[PageLimit, Meta(description="Items on one page.")] = 50
    cursor: Cursor | UnsetType = UNSET


class DriftAnswer(Answer, frozen=True, kw_only=True):
    """What newer measurements of the same question say of a calibration."""

    stale: Annotated[
        bool,
        Meta(
            description=(
                "Whether workers run other releases, drivers or GPUs now: it answers no more."
            )
        ),
    ]
    current_environment: Annotated[str, Meta(description="What runs now.")]
    measured: Annotated[
        int, Meta(description="Measurements there that a calibration had promised something.")
    ]
    outside: Annotated[
        int, Meta(description="Of these, those outside of the 0.95 interval of what was promised.")
    ]
    drifting: Annotated[
        bool, Meta(description="Whether that is more than 97.5 % of all draws have at that level.")
    ]
    bias: Annotated[
        float | None,
        Meta(
            description=(
                "Mean of measured / analytic answer - 1 where it was learnt; null where nothing "
                "was."
            )
        ),
    ]
    current_bias: Annotated[
        float | None,
        Meta(description="The same where workers run now; null where nothing was measured there."),
    ]


class CalibrationAnswer(Answer, frozen=True, kw_only=True):
    """What measurements taught about one key."""

    id: str
    key: str
    quantity: str
    kind: Annotated[str, Meta(description="The kind of run, whose keys learn from each other.")]
    family: str
    environment: Annotated[str, Meta(description="What it was measured on and with.")]
    scope: dict[str, Any]
    correction: dict[str, Any]
    evidence: Annotated[list[str], Meta(description="The measurements it rests on.")]
    drift: DriftAnswer
    created_at: str


class CalibrationPage(Answer, frozen=True, kw_only=True):
    """Calibrations, newest first."""

    items: list[CalibrationAnswer]
    next_cursor: str | None


class CalibrationPoolAnswer(Answer, frozen=True, kw_only=True):
    """What keys have in common, which answers for those that nobody measured."""

    name: str
    level: Annotated[str, Meta(description="`family` or `global`.", examples=["family"])]
    quantity: str
    kind: str
    environment: str
    family: str | None
    shares: Annotated[
        dict[str, float],
        Meta(
            description="What is added, as shares of the analytic answer; of times the logarithm."
        ),
    ]
    keys: int
    measurements: int
    half_width: Annotated[
        float | None,
        Meta(
            description=(
                "Half the 0.95 interval of a key that nobody measured, as a share; null where too "
                "few keys are known."
            )
        ),
    ]
    key_half_width: Annotated[
        float | None,
        Meta(
            description=(
                "Half the 0.95 interval of other sizes of a measured key, as a share; null where "
                "too few are known."
            )
        ),
    ]


class PoolPage(Answer, frozen=True, kw_only=True):
    """All that keys have in common, by kind of run."""

    items: list[CalibrationPoolAnswer]


class RemeasureAnswer(Answer, frozen=True, kw_only=True):
    """What was asked for again."""

    measurements: Annotated[
        list[str], Meta(description="The new measurements, one for each size that was measured.")
    ]


class AccuracyQuery(Strict, frozen=True, kw_only=True):
    """Which measurements count."""

    family: Annotated[Word | UnsetType, Meta(description="Of models of this family.")] = UNSET
    gpu: Annotated[GpuName | UnsetType, Meta(description="On this GPU.")] = UNSET
    device: Annotated[ProbeDevice | UnsetType, Meta(description="By probes of this kind.")] = UNSET
    quantity: Annotated[Quantity | UnsetType, Meta(description="Of this quantity.")] = UNSET
    since: Annotated[Moment | UnsetType, Meta(description="Measured at or after this time.")] = (
        UNSET
    )


class ErrorAnswer(Answer, frozen=True, kw_only=True):
    """Relative errors: answer / measured - 1."""

    median: Annotated[float, Meta(description="Of the absolute errors.")]
    p95: Annotated[float, Meta(description="Of the absolute errors.")]
    bias: Annotated[float, Meta(description="Mean of the signed errors.")]
    coverage: Annotated[
        float | None,
        Meta(
            description=(
                "Share of measurements in their 0.95 interval; null where the answers had none."
            )
        ),
    ]
    width: Annotated[
        float | None,
        Meta(
            description=(
                "Mean width of the intervals over what was measured; null where the answers had "
                "none."
            )
        ),
    ]


class ClassAnswer(Answer, frozen=True, kw_only=True):
    """One kind of run and quantity on one GPU."""

    kind: str
    quantity: str
    gpu: Annotated[
        str | None, Meta(description="What measured; null where it was no GPU, or an unknown one.")
    ]
    count: int
    before: Annotated[ErrorAnswer, Meta(description="Of the analytic answers.")]
    after: Annotated[
        ErrorAnswer,
        Meta(description="Of the answers that rest on every measurement but the one held out."),
    ]


class ShippedAnswer(Answer, frozen=True, kw_only=True):
    """The interval that an analytic answer gets before anything was measured here."""

    kind: str
    quantity: str
    low: Annotated[float, Meta(description="Lowest reading over the answer.")]
    high: Annotated[float, Meta(description="Highest reading over the answer.")]


class AccuracyAnswer(Answer, frozen=True, kw_only=True):
    """How far answers were from what was measured here, and the intervals that are shipped."""

    level: Annotated[float, Meta(description="Share that an interval should hold.")]
    classes: list[ClassAnswer]
    shipped: list[ShippedAnswer]


ClusterChoice = Annotated[
    Name | UnsetType,
    Meta(
        description="A stored cluster: what was measured on its GPUs comes before what such GPUs "
        "showed anywhere. `cluster` of the answer says what rests on it."
    ),
]


class BasesAnswer(Answer, frozen=True, kw_only=True):
    """What each quantity rests on: `analytic`, `calibrated` by measurements like it, or `measured`
    itself.
    """

    allocated: Annotated[str, Meta(examples=["analytic"])]
    reserved: Annotated[
        str, Meta(description="What is reserved beyond the allocated bytes.", examples=["analytic"])
    ]
    context: Annotated[str, Meta(description="What lies on the GPU beside the allocator.")]
    step_time: Annotated[
        str, Meta(description="Of a step, or of a decode step.", examples=["analytic"])
    ]
    prefill_time: Annotated[
        str | None, Meta(description="Null where nothing is served.", examples=["analytic"])
    ]


class ClusterBasisAnswer(Answer, frozen=True, kw_only=True):
    """What of an answer rests on measurements of a cluster's own GPUs."""

    name: Annotated[str, Meta(description="The cluster, as the question names it.")]
    quantities: Annotated[
        list[str],
        Meta(
            description="Words of `bases` that rest on the cluster's own measurements, and "
            "`device` where its readings raise `device_bytes`; all others are as for such GPUs "
            "anywhere.",
            examples=[["context"]],
        ),
    ]


ClusterBasis = Annotated[
    ClusterBasisAnswer | UnsetType,
    Meta(description="Of the cluster that the question names; absent where it names none."),
]
