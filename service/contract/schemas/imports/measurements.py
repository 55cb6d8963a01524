"""Request and answer of POST /v1/measurements/import."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from service.contract.schemas.fields import Answer, GpuName, Name, Strict
from service.contract.schemas.fit import ModelReference
from service.contract.schemas.hooks.decisions import QuestionDigest
from service.contract.schemas.layouts import LayoutRequest
from service.contract.schemas.workload import WorkloadRequest
from service.formats.measured.reading import Format
from service.jobs.states import ClaimState

MAX_IMPORT_BYTES = 48_000_000
"""A body: a snapshot of some 35 MB in base64, or a log of more."""
_DNS = r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$(?!\n)"
_LINE = r"^[ -~]{1,200}$(?!\n)"

Json = Mapping[str, Any]
Words = Annotated[str, Meta(pattern=_LINE)]
Model = Annotated[ModelReference | UnsetType, Meta(description="The model that ran.")]
Workload = Annotated[WorkloadRequest | UnsetType, Meta(description="What ran.")]
Layout = Annotated[
    LayoutRequest | UnsetType, Meta(description="How it was spread; default one GPU.")
]
Gpu = Annotated[
    GpuName | UnsetType, Meta(description="The GPU it ran on, where the file does not say it.")
]


class ImportMatch(Strict, frozen=True, kw_only=True):
    """Readings taken here; every word that is given must hold."""

    job: Annotated[
        Words | UnsetType,
        Meta(description="Slurm's job id, or `namespace/pod`.", examples=["18194943"]),
    ] = UNSET
    name: Annotated[Words | UnsetType, Meta(description="Name of the job.")] = UNSET
    step: Annotated[Words | UnsetType, Meta(description="Step of the job: `batch`, `0`.")] = UNSET
    host: Annotated[Words | UnsetType, Meta(description="Host name.")] = UNSET
    gpu: Annotated[
        Words | UnsetType, Meta(description="Index or UUID of a GPU.", examples=["0"])
    ] = UNSET
    pid: Annotated[
        Annotated[int, Meta(ge=1, le=2**31 - 1)] | UnsetType, Meta(description="A process.")
    ] = UNSET


class ImportJob(Strict, frozen=True, kw_only=True):
    """What some of the file's readings are of; what is left out is as the request has it for
    all.
    """

    match: ImportMatch
    model: Model = UNSET
    workload: Workload = UNSET
    layout: Layout = UNSET
    gpu: Gpu = UNSET


class ImportEnvironment(Strict, frozen=True, kw_only=True):
    """What the file does not say of the run, and you know."""

    driver: Annotated[
        Words | UnsetType, Meta(description="Version of the driver.", examples=["570.86.15"])
    ] = UNSET
    cuda: Words | UnsetType = UNSET
    torch: Annotated[
        Words | UnsetType, Meta(description="Version of PyTorch.", examples=["2.13.0"])
    ] = UNSET
    transformers: Words | UnsetType = UNSET
    peft: Words | UnsetType = UNSET
    allocator: Annotated[
        Words | UnsetType, Meta(description="What PYTORCH_CUDA_ALLOC_CONF was.")
    ] = UNSET


class ImportPod(Strict, frozen=True, kw_only=True):
    """A pod of Kubernetes."""

    namespace: Annotated[str, Meta(pattern=_DNS, description="Its namespace.", examples=["ml"])]
    name: Annotated[str, Meta(pattern=_DNS, description="Its name.", examples=["tune-x7x2k"])]
    seen_at: Annotated[
        datetime,
        Meta(tz=True, description="RFC 3339: when it was first seen, after its owner was made."),
    ]


class ImportRequest(Strict, frozen=True, kw_only=True):
    """A file of the field, and the questions that its readings answer."""

    content: Annotated[
        Annotated[str, Meta(min_length=1)] | UnsetType, Meta(description="The file, as text.")
    ] = UNSET
    content_base64: Annotated[
        Annotated[str, Meta(min_length=1)] | UnsetType,
        Meta(description="The file in base64, in place of `content`: a pickle."),
    ] = UNSET
    format: Annotated[
        Format | UnsetType, Meta(description="Whose file it is; told from the file when left out.")
    ] = UNSET
    dry_run: Annotated[
        bool, Meta(description="Answer what would be stored, and store nothing.")
    ] = True
    question: Annotated[
        QuestionDigest | UnsetType,
        Meta(
            description="What ran, as a scheduler's hook was asked about it: in place of `model`, "
            "`workload`, `layout` and `gpu`."
        ),
    ] = UNSET
    pod: Annotated[
        ImportPod | UnsetType,
        Meta(
            description="What ran, as the admission webhook was asked about the owner of this pod: "
            "in place of `question`."
        ),
    ] = UNSET
    model: Model = UNSET
    workload: Workload = UNSET
    layout: Layout = UNSET
    gpu: Gpu = UNSET
    match: Annotated[
        ImportMatch | UnsetType, Meta(description="Which readings these are of; default all.")
    ] = UNSET
    jobs: Annotated[
        Annotated[list[ImportJob], Meta(min_length=1, max_length=1000)] | UnsetType,
        Meta(
            description=(
                "Where several jobs are in one file: what each ran. The first that matches a "
                "reading has it."
            )
        ),
    ] = UNSET
    environment: ImportEnvironment | UnsetType = UNSET
    cluster: Annotated[
        Name | UnsetType,
        Meta(
            description="The stored cluster that it ran on: it corrects answers about that cluster "
            "first, and about such GPUs anywhere as without it. Default that of `question` or "
            "`pod`, where one was asked about."
        ),
    ] = UNSET


class ReadingAnswer(Answer, frozen=True, kw_only=True):
    """One number of the file; the counter showed something from `low` to `high` (null: or more)."""

    quantity: str
    value: Annotated[int, Meta(description="Bytes, or tokens of a pool.")]
    low: int
    high: int | None
    sampled: Annotated[bool, Meta(description="Seen now and then: the true peak may be higher.")]
    num_samples: int
    place: Annotated[
        Mapping[str, Any],
        Meta(description="Job, step, host, GPU, process and rank, as far as the file says."),
    ]
    line: int | None
    since: str | None
    until: str | None


class ImportItem(Answer, frozen=True, kw_only=True):
    """One job as one measurement: that of its neediest rank."""

    job: str | None
    status: Annotated[
        str,
        Meta(
            description=(
                "`new`, `known` (stored before), `stored` (now) or `refused`, see `problems`."
            )
        ),
    ]
    id: Annotated[str | None, Meta(description="Id of the measurement; null until there is one.")]
    gpu: str | None
    environment: Json
    peaks: Json
    prediction: Annotated[
        Json | None,
        Meta(
            description=(
                "Of each quantity: measured, predicted, before and after calibration; null where "
                "nothing could be predicted."
            )
        ),
    ]
    readings: Sequence[ReadingAnswer]
    notes: Sequence[str]
    problems: Sequence[str]
    approval: Annotated[
        ClaimState | None,
        Meta(
            description=(
                "Whether it teaches: `approved` ones do; `pending` ones wait for an operator, "
                "`held` ones too, and are approved by their ids alone. Null where it cannot be "
                "stored, or was before there were approvals."
            )
        ),
    ]
    held_reason: Annotated[
        str | None, Meta(description="Why it is held apart; null where it is not.")
    ]


class LeftOutAnswer(Answer, frozen=True, kw_only=True):
    """A part of the file that became no reading."""

    line: int | None
    what: str
    reason: str


class ImportAnswer(Answer, frozen=True, kw_only=True):
    """What a file holds, and what became of it."""

    dry_run: bool
    format: Format
    num_stored: int
    items: Sequence[ImportItem]
    num_left_out: int
    left_out: Annotated[Sequence[LeftOutAnswer], Meta(description="The first hundred.")]
    notes: Sequence[str]
