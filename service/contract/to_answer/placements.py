"""Cluster placements as answers of the contract.

Also why there is none today, or never.
"""

from service.contract.schemas.reservations import (
    HeldAnswer,
    NeverAnswer,
    NotTodayAnswer,
    PlacedAnswer,
    SeatAnswer,
    ShareAnswer,
)
from service.contract.to_answer.timestamps import format_optional_timestamp, format_timestamp
from service.planner.cluster.placement import Assignment, Blocked, Impossible, Placement
from service.planner.cluster.reservation import Share


def build_placement_answer(
    placement: Placement | Blocked | Impossible,
) -> PlacedAnswer | NotTodayAnswer | NeverAnswer:
    """Return the answer of a placement.

    One that was found can be reserved as it is.
    """
    match placement:
        case Placement():
            return PlacedAnswer(
                fits_now=True,
                fits_at_all=True,
                num_gpus=placement.num_gpus,
                gpus_per_node=placement.gpus_per_node,
                cost_per_hour=placement.cost_per_hour,
                nodes=[_build_seat(seat) for seat in placement.assignments],
                notes=list(placement.notes),
            )
        case Blocked():
            return _build_blocked(placement)
        case Impossible():
            return NeverAnswer(
                fits_now=False,
                fits_at_all=False,
                reason=placement.reason,
                num_gpus=placement.num_gpus,
                total_gpus=placement.total_gpus,
            )


def build_share_answer(share: Share) -> ShareAnswer:
    """Return the GPUs that are held on one node."""
    return ShareAnswer(
        pool=share.pool,
        node=share.node,
        num_gpus=share.num_gpus,
        gpu_indices=None if share.gpu_indices is None else list(share.gpu_indices),
        mig_profile=share.mig_profile,
        host_memory_bytes=share.host_memory_bytes,
    )


def _build_seat(seat: Assignment) -> SeatAnswer:
    share = seat.share
    return SeatAnswer(
        pool=share.pool,
        node=share.node,
        num_gpus=share.num_gpus,
        gpu_indices=None if share.gpu_indices is None else list(share.gpu_indices),
        mig_profile=share.mig_profile,
        host_memory_bytes=share.host_memory_bytes,
        replica=seat.replica,
    )


def _build_blocked(blocked: Blocked) -> NotTodayAnswer:
    return NotTodayAnswer(
        fits_now=False,
        fits_at_all=True,
        reason=blocked.reason,
        num_gpus=blocked.num_gpus,
        free_gpus=blocked.free_gpus,
        total_gpus=blocked.total_gpus,
        held=[
            HeldAnswer(
                hold=claim.hold.value,
                holder=claim.holder,
                num_gpus=claim.num_gpus,
                until=format_optional_timestamp(claim.until),
            )
            for claim in blocked.claims
        ],
        possible_at=None if blocked.possible_at is None else format_timestamp(blocked.possible_at),
    )
