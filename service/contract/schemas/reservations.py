"""Requests and answers of reservations, and placements of plans.

Of /v1/clusters/{name}/reservations, and where a plan puts a job.
"""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from service.contract.schemas.clusters import GpuIndices
from service.contract.schemas.fields import (
    Answer,
    Holder,
    Memory,
    MigProfileName,
    Name,
    NodeName,
    Strict,
)

MAX_SECONDS = 31_536_000
NumGpus = Annotated[
    int, Meta(ge=1, le=100_000, description="GPUs, or slices where a MIG profile is named.")
]

SchedulerName = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9][a-z0-9-]{0,31}\Z",
        description="The scheduler that has the job.",
        examples=["slurm"],
    ),
]
JobName = Annotated[
    str,
    Meta(
        pattern=r"^[!-~]([ -~]{0,253}[!-~])?\Z",
        description="Its id or name there.",
        examples=["4711"],
    ),
]


class ShareRequest(Strict, frozen=True, kw_only=True):
    """GPUs of one node, or of any nodes of a pool."""

    pool: Name
    num_gpus: NumGpus
    node: Annotated[
        NodeName | UnsetType,
        Meta(description="Absent: any nodes of the pool, the fewest and fullest."),
    ] = UNSET
    gpu_indices: Annotated[
        GpuIndices | UnsetType | None,
        Meta(description="Which GPUs; absent or null: any of the node."),
    ] = UNSET
    mig_profile: Annotated[
        MigProfileName | UnsetType | None,
        Meta(description="Profile of slices in place of whole GPUs; absent or null: whole GPUs."),
    ] = UNSET
    host_memory_bytes: Annotated[
        Memory, Meta(description="Bytes of the host's memory for these GPUs together.")
    ] = 0


class SeatRequest(ShareRequest, frozen=True, kw_only=True):
    """GPUs that a plan gives to one replica on one node."""

    replica: Annotated[int, Meta(ge=0, le=100_000, description="The replica, counted from 0.")] = 0


class PlacementRequest(Strict, frozen=True, kw_only=True):
    """The `placement` of a plan's candidate, as it was sent."""

    nodes: Annotated[
        list[SeatRequest],
        Meta(min_length=1, max_length=10_000, description="Of every replica, its nodes."),
    ]
    status: Literal["placed"] | UnsetType = UNSET
    num_gpus: NumGpus | UnsetType = UNSET
    gpus_per_node: Annotated[int, Meta(ge=1, le=256)] | UnsetType | None = UNSET
    cost_per_hour: Annotated[float, Meta(ge=0)] | UnsetType | None = UNSET
    notes: Annotated[list[str], Meta(max_length=100)] | UnsetType = UNSET
    fits_now: bool | UnsetType = UNSET
    fits_at_all: bool | UnsetType = UNSET


class ReservationRequest(Strict, frozen=True, kw_only=True):
    """What to promise to whom, and until when: exactly one of `gpus` and `placement`, and one of
    the two ends.
    """

    holder: Holder
    gpus: (
        Annotated[
            list[ShareRequest],
            Meta(min_length=1, max_length=10_000, description="GPUs by pool and node."),
        ]
        | UnsetType
    ) = UNSET
    placement: PlacementRequest | UnsetType = UNSET
    expires_in_s: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_SECONDS)] | UnsetType,
        Meta(description="Seconds from now until it ends."),
    ] = UNSET
    expires_at: Annotated[
        Annotated[datetime, Meta(tz=True)] | UnsetType, Meta(description="RFC 3339: when it ends.")
    ] = UNSET


class SchedulerJobRequest(Strict, frozen=True, kw_only=True):
    """A job as its scheduler calls it."""

    scheduler: SchedulerName
    id: JobName


class ReservationChangeRequest(Strict, frozen=True, kw_only=True):
    """Another end of a reservation, the job that it is for, or both."""

    expires_in_s: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_SECONDS)] | UnsetType,
        Meta(description="Seconds from now until it ends; absent: the end stays."),
    ] = UNSET
    expires_at: Annotated[
        Annotated[datetime, Meta(tz=True)] | UnsetType,
        Meta(description="RFC 3339: when it ends, in place of `expires_in_s`."),
    ] = UNSET
    job: Annotated[
        SchedulerJobRequest | UnsetType,
        Meta(description="The job that runs on it; absent: what is known of it stays."),
    ] = UNSET


class ShareAnswer(Answer, frozen=True, kw_only=True):
    """GPUs of one node."""

    pool: str
    node: str
    num_gpus: int
    gpu_indices: Annotated[
        list[int] | None, Meta(description="Null where any of the node's GPUs will do.")
    ]
    mig_profile: str | None
    host_memory_bytes: int


class SchedulerJobAnswer(Answer, frozen=True, kw_only=True):
    """A job as its scheduler calls it."""

    scheduler: str
    id: str


class ReservationAnswer(Answer, frozen=True, kw_only=True):
    """A reservation that lives."""

    id: str
    cluster: str
    holder: str
    num_gpus: Annotated[int, Meta(description="Whole GPUs of all nodes.")]
    gpus: list[ShareAnswer]
    created_at: Annotated[str, Meta(description="RFC 3339, UTC.")]
    expires_at: Annotated[str, Meta(description="RFC 3339, UTC.")]
    job: Annotated[
        SchedulerJobAnswer | None,
        Meta(description="The job that it is for; null where nobody said."),
    ]
    created_by: Annotated[
        str | None,
        Meta(
            description="Name of the key that made it, which may change it; null where it is older "
            "than owners: anybody may."
        ),
    ]


class ReservationPage(Answer, frozen=True, kw_only=True):
    """Reservations that live, newest first."""

    items: list[ReservationAnswer]
    next_cursor: str | None


class SeatAnswer(ShareAnswer, frozen=True, kw_only=True):
    """GPUs of one replica on one node."""

    replica: Annotated[int, Meta(description="The replica, counted from 0.")]


class PlacedAnswer(Answer, frozen=True, kw_only=True, tag_field="status", tag="placed"):
    """Where the job runs; as `placement` of a reservation it is promised."""

    fits_now: bool
    fits_at_all: bool
    num_gpus: int
    gpus_per_node: Annotated[
        int | None,
        Meta(description="GPUs of a replica on each of its nodes; null where they differ."),
    ]
    cost_per_hour: Annotated[
        float | None, Meta(description="By the prices of the pools; null where one has none.")
    ]
    nodes: list[SeatAnswer]
    notes: list[str]


class HeldAnswer(Answer, frozen=True, kw_only=True):
    """GPUs that are not free."""

    hold: Annotated[str, Meta(description="`used`, `reserved` or `drained`.")]
    holder: Annotated[str | None, Meta(description="Null where nobody told.")]
    num_gpus: int
    until: Annotated[
        str | None,
        Meta(
            description=(
                "When the last reservation of this holder ends, RFC 3339, UTC; null where no "
                "reservation holds them."
            )
        ),
    ]


class NotTodayAnswer(Answer, frozen=True, kw_only=True, tag_field="status", tag="not_today"):
    """The cluster is large enough, but others are on it."""

    fits_now: bool
    fits_at_all: bool
    reason: str
    num_gpus: Annotated[int, Meta(description="GPUs that are needed.")]
    free_gpus: int
    total_gpus: int
    held: list[HeldAnswer]
    possible_at: Annotated[
        str | None, Meta(description="When enough reservations will have expired; null if never.")
    ]


class NeverAnswer(Answer, frozen=True, kw_only=True, tag_field="status", tag="never"):
    """Even the empty cluster could not hold it."""

    fits_now: bool
    fits_at_all: bool
    reason: str
    num_gpus: Annotated[int, Meta(description="GPUs that are needed.")]
    total_gpus: int
