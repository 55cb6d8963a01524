"""Bodies of reservations: what is asked for, and what is shown."""

from datetime import timedelta
from typing import Any

from msgspec import UnsetType

from service.base.errors import InvalidRequestError
from service.contract.schemas.fields import get_or_none
from service.contract.schemas.reservations import (
    ReservationAnswer,
    ReservationChangeRequest,
    ReservationRequest,
    SchedulerJobAnswer,
    ShareRequest,
)
from service.contract.to_answer.placements import build_share_answer
from service.contract.to_answer.timestamps import format_timestamp
from service.contract.to_question.models import prefix_error_field
from service.formats.quantities import parse_bytes
from service.planner.cluster.grants import ANYWHERE
from service.planner.cluster.reservation import Share
from service.usecases.clusters.reservations import NewReservation, ReservationChange
from service.usecases.stored import SchedulerJob, StoredReservation


def read_reservation(request: ReservationRequest) -> NewReservation:
    """Return what is to be reserved."""
    _require_either(request, "expires_in_s", "expires_at")
    field, value = _require_either(request, "gpus", "placement")
    shares, path = (value, "gpus") if field == "gpus" else (value.nodes, "placement.nodes")
    seconds = get_or_none(request.expires_in_s)
    return NewReservation(
        holder=request.holder,
        gpus=tuple(_read_share(share, f"{path}[{index}]") for index, share in enumerate(shares)),
        field=path,
        expires_in=None if seconds is None else timedelta(seconds=seconds),
        expires_at=get_or_none(request.expires_at),
    )


def read_change(request: ReservationChangeRequest) -> ReservationChange:
    """Return what is to change of a reservation.

    Refuses no change at all, and two ends.
    """
    ends = [get_or_none(request.expires_in_s), get_or_none(request.expires_at)]
    num_ends = sum(end is not None for end in ends)
    if num_ends > 1 or (num_ends == 0 and isinstance(request.job, UnsetType)):
        message = (
            "say expires_in_s or expires_at, and not both"
            if num_ends > 1
            else "say what changes: expires_in_s, expires_at or job"
        )
        raise InvalidRequestError(message, errors=[{"field": "expires_in_s", "message": message}])
    seconds, job = get_or_none(request.expires_in_s), get_or_none(request.job)
    return ReservationChange(
        expires_in=None if seconds is None else timedelta(seconds=seconds),
        expires_at=get_or_none(request.expires_at),
        job=None if job is None else SchedulerJob(scheduler=job.scheduler, id=job.id),
    )


def _require_either(request: ReservationRequest, *names: str) -> tuple[str, Any]:
    """Return which of two fields is set, and its value.

    Refuses none and both.
    """
    present = [
        (name, value)
        for name in names
        if not isinstance(value := getattr(request, name), UnsetType)
    ]
    if len(present) != 1:
        message = f"say {' or '.join(names)}{', and not both' if present else ''}"
        raise InvalidRequestError(message, errors=[{"field": names[0], "message": message}])
    return present[0]


def _read_share(request: ShareRequest, field: str) -> Share:
    indices = get_or_none(request.gpu_indices)
    with prefix_error_field(field):
        return Share(
            pool=request.pool,
            node=ANYWHERE if isinstance(request.node, UnsetType) else request.node,
            num_gpus=request.num_gpus,
            gpu_indices=None if indices is None else tuple(indices),
            mig_profile=get_or_none(request.mig_profile),
            host_memory_bytes=parse_bytes(request.host_memory_bytes, field="host_memory_bytes"),
        )


def build_answer(stored: StoredReservation) -> ReservationAnswer:
    """Return a reservation as it is shown."""
    return ReservationAnswer(
        id=str(stored.id),
        cluster=stored.cluster,
        holder=stored.holder,
        num_gpus=sum(share.num_gpus for share in stored.shares if share.mig_profile is None),
        gpus=[build_share_answer(share) for share in stored.shares],
        created_at=format_timestamp(stored.created_at),
        expires_at=format_timestamp(stored.expires_at),
        job=_build_job(stored.job),
        created_by=None if stored.created_by is None else stored.created_by.name,
    )


def _build_job(job: SchedulerJob | None) -> SchedulerJobAnswer | None:
    return None if job is None else SchedulerJobAnswer(scheduler=job.scheduler, id=job.id)
