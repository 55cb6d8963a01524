"""Requests and answers of /v1/measurements."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from service.contract.schemas.fields import Answer, Cursor, GpuName, ModelName, PageLimit, Strict
from service.contract.schemas.fit import ModelReference
from service.contract.schemas.layouts import LayoutRequest
from service.contract.schemas.workload import WorkloadRequest
from service.jobs.artifacts import ArtifactName
from service.jobs.contract import Priority, ProbeDevice
from service.jobs.states import Status
from service.usecases.stored import MeasurementSort

Json = Mapping[str, Any]
PRIORITY = (
    "Who goes first among those that wait: high before normal before low. A step is worth an hour "
    "of waiting, so nobody waits for ever."
)
Family = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9_.-]{0,62}$(?!\n)")]
Share = Annotated[float, Meta(ge=0, le=1e9)]

ArtifactPath = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9_]{1,63}$(?!\n)",
        description="Name of an artifact.",
        examples=["memory_snapshot"],
    ),
]


class MeasurementRequest(Strict, frozen=True, kw_only=True):
    """A probe to be run."""

    model: Annotated[
        ModelReference, Meta(description="Stored or catalogue name, or an inline model.")
    ]
    workload: Annotated[WorkloadRequest, Meta(description="What runs.")]
    device: Annotated[
        ProbeDevice | UnsetType,
        Meta(
            description=(
                "Where the probe runs. Default `cuda` where a living worker has the GPU that "
                "`gpu` names, or any where it names none; else `cpu`."
            )
        ),
    ] = UNSET
    layout: Annotated[
        LayoutRequest | UnsetType, Meta(description="How the real job is spread; default one GPU.")
    ] = UNSET
    gpu: Annotated[
        GpuName | UnsetType, Meta(description="The GPU that the answer is wanted for.")
    ] = UNSET
    priority: Annotated[Priority, Meta(description=PRIORITY)] = Priority.NORMAL
    full_depth: Annotated[bool, Meta(description="Run every layer instead of slices.")] = False
    rank: Annotated[
        int, Meta(ge=0, description="Which rank of the layout is run; the first holds most.")
    ] = 0
    artifacts: Annotated[
        tuple[ArtifactName, ...],
        Meta(
            max_length=8,
            description="To be kept beside the numbers. `memory_snapshot` is the caching "
            "allocator's, of the largest run, as "
            "https://pytorch.org/memory_viz and `torch.cuda._memory_viz` read it: CUDA's own on "
            "device cuda, whose steps are "
            "then not timed; on device trace every tensor led through the same allocator, with its "
            "module and its lines.",
        ),
    ] = ()
    dry_run: Annotated[
        bool,
        Meta(
            description=(
                "Answer what would be run and how long it would take, and ask no worker for "
                "anything."
            )
        ),
    ] = False


class PlannedRunAnswer(Answer, frozen=True, kw_only=True):
    """One model that would be run; `sequence_length` counts what is decoded too."""

    num_layers: int
    micro_batch_size: int
    sequence_length: int
    output_tokens: int
    why: str
    expected_s: float


class DryRunAnswer(Answer, frozen=True, kw_only=True):
    """What a measurement would run."""

    dry_run: bool
    runs: Sequence[PlannedRunAnswer]
    expected_s: Annotated[
        float,
        Meta(description="Seconds that all runs together are expected to take on the device."),
    ]
    notes: Sequence[str]
    host: Annotated[
        Json, Meta(description="What the plan rests on: the device's free memory and speed.")
    ]
    worker: Annotated[
        str | None,
        Meta(description="Which worker told of that host; null where none has yet, see `notes`."),
    ]
    told_at: str | None
    problem: Annotated[
        Json | None,
        Meta(
            description=(
                "Why the probe would refuse, as a problem document; then nothing runs. Null where "
                "it would not."
            )
        ),
    ]


Source = Literal["probe", "import", "recording"]


class MeasurementQuery(Strict, frozen=True, kw_only=True):
    """Which measurements, and which page of them."""

    limit: Annotated[PageLimit | UnsetType, Meta(description="Items on one page; default 50.")] = (
        UNSET
    )
    cursor: Cursor | UnsetType = UNSET
    model: Annotated[ModelName | UnsetType, Meta(description="Name of the model.")] = UNSET
    gpu: Annotated[GpuName | UnsetType, Meta(description="The GPU that was named.")] = UNSET
    status: Annotated[Status | UnsetType, Meta(description="State of the measurement.")] = UNSET
    device: Annotated[ProbeDevice | UnsetType, Meta(description="Where the probe runs.")] = UNSET
    family: Annotated[
        Family | UnsetType, Meta(description="Family of the model.", examples=["llama"])
    ] = UNSET
    task: Annotated[Literal["train", "serve"] | UnsetType, Meta(description="What ran.")] = UNSET
    source: Annotated[
        Source | UnsetType,
        Meta(description="Who measured; `recording` lists recordings, which no other list has."),
    ] = UNSET
    error_at_least: Annotated[
        Share | UnsetType, Meta(description="Predictions that were off by this share or more.")
    ] = UNSET
    error_at_most: Annotated[
        Share | UnsetType, Meta(description="Predictions that were off by this share at most.")
    ] = UNSET
    sort: Annotated[
        MeasurementSort,
        Meta(
            description=(
                "What comes first; by `error`, without its sign, only measurements that have one "
                "are listed."
            )
        ),
    ] = MeasurementSort.NEWEST
    format: Annotated[
        Literal["json", "rows", "csv"] | UnsetType,
        Meta(
            description=(
                "Whole measurements, or flat rows as JSON or as CSV, which has no pages; `Accept` "
                "may say it."
            )
        ),
    ] = UNSET
    created_after: Annotated[
        Annotated[datetime, Meta(tz=True)] | UnsetType, Meta(description="RFC 3339.")
    ] = UNSET
    created_before: Annotated[
        Annotated[datetime, Meta(tz=True)] | UnsetType, Meta(description="RFC 3339.")
    ] = UNSET


class ArtifactAnswer(Answer, frozen=True, kw_only=True):
    """A file of a measurement; GET /v1/measurements/{id}/artifacts/{name} has what is in it."""

    name: str
    media_type: str
    bytes: int
    sha256: str


class MeasurementAnswer(Answer, frozen=True, kw_only=True):
    """One measurement; what was found is null until it has succeeded."""

    id: str
    status: Status
    attempt: int
    device: ProbeDevice
    model: Annotated[str | None, Meta(description="Name of the model; null when it came inline.")]
    source: Annotated[
        Source,
        Meta(description="Who measured: a worker, whoever wrote the file; or a model's recording."),
    ]
    family: str | None
    task: str | None
    gpu: str | None
    progress: Annotated[float, Meta(description="0 to 1.")]
    phase: Annotated[str, Meta(description="What happens now, in words.")]
    created_by: str | None
    created_at: str
    started_at: str | None
    finished_at: str | None
    worker: str | None
    cancel_requested: bool
    request: Annotated[Json, Meta(description="What was asked, with everything resolved.")]
    question: Annotated[
        Json | None,
        Meta(
            description=(
                "The same as a body of POST /v1/measurements, which asks it again; null if it is "
                "outdated."
            )
        ),
    ]
    problem: Annotated[Json | None, Meta(description="Why it failed, as a problem document.")]
    warnings: Annotated[
        Sequence[str],
        Meta(
            description=(
                "Of a queued one that no living worker can run: what it waits for, and what to "
                "start."
            )
        ),
    ] = ()
    environment: Json | None = None
    peaks: Annotated[
        Json | None, Meta(description="The highest readings, for the model that was asked.")
    ] = None
    instants: Sequence[Json] = ()
    readings: Annotated[
        Sequence[Json], Meta(description="Of an import: the numbers of the file.")
    ] = ()
    steady_bytes: Annotated[
        int | None, Meta(description="Bytes that are allocated between steps.")
    ] = None
    extrapolated: Annotated[
        bool | None, Meta(description="Whether peaks and instants come from slices, see `probes`.")
    ] = None
    transferable: Annotated[
        bool | None, Meta(description="Whether the kernels were those that CUDA would choose.")
    ] = None
    step_time_s: Json | None = None
    probes: Annotated[Sequence[Json], Meta(description="What was really run.")] = ()
    prediction: Annotated[
        Json | None,
        Meta(
            description="What the estimator had said; `error` is predicted / measured - 1, `low` "
            "to `high` the 0.95 interval, "
            "`instants` what it said of each part of a step.",
        ),
    ] = None
    calibration: Annotated[str | None, Meta(description="What was learnt from it.")] = None
    notes: Sequence[str] = ()
    artifacts: Annotated[
        Sequence[ArtifactAnswer], Meta(description="Files that were asked for and are still there.")
    ] = ()


class MeasurementPage(Answer, frozen=True, kw_only=True):
    """Measurements, newest first."""

    items: list[MeasurementAnswer]
    next_cursor: str | None


class SampleAnswer(Answer, frozen=True, kw_only=True):
    """One reading of one counter."""

    attempt: int
    seq: int
    t_s: Annotated[float, Meta(description="Seconds since the probe began.")]
    kind: str
    bytes: int


class SamplePage(Answer, frozen=True, kw_only=True):
    """Samples, oldest first."""

    items: list[SampleAnswer]
    next_cursor: str | None


class EventAnswer(Answer, frozen=True, kw_only=True):
    """One server-sent event."""

    id: Annotated[str, Meta(description="For `Last-Event-ID`.", examples=["3"])]
    event: Literal["status", "plan", "progress", "sample"]
    data: Annotated[
        str,
        Meta(
            description="A JSON object.", extra_json_schema={"contentMediaType": "application/json"}
        ),
    ]
