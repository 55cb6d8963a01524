"""Where a plan puts a job on a cluster, and why not today or never, in the words of the contract."""

from service.contract.schemas.reservations import HeldAnswer, NeverAnswer, NotTodayAnswer, PlacedAnswer, SeatAnswer, ShareAnswer
from service.contract.to_answer.timestamps import timestamp, timestamp_or_none
from service.planner.cluster.placement import Never, NotToday, Placement, Seat
from service.planner.cluster.reservation import Share


def placement_answer(found: Placement | NotToday | Never) -> PlacedAnswer | NotTodayAnswer | NeverAnswer:
    """Return the answer of a placement; that of one that was found can be reserved as it is."""
    match found:
        case Placement():
            return PlacedAnswer(
                num_gpus=found.num_gpus,
                gpus_per_node=found.gpus_per_node,
                cost_per_hour=found.cost_per_hour,
                nodes=[_seat(seat) for seat in found.seats],
                notes=list(found.notes),
            )
        case NotToday():
            return _not_today(found)
        case Never():
            return NeverAnswer(reason=found.reason, num_gpus=found.num_gpus, total_gpus=found.total_gpus)


def share_answer(share: Share) -> ShareAnswer:
    """Return what is held of one node."""
    return ShareAnswer(
        pool=share.pool,
        node=share.node,
        num_gpus=share.num_gpus,
        gpu_indices=None if share.gpu_indices is None else list(share.gpu_indices),
        mig_profile=share.mig_profile,
        host_memory_bytes=share.host_memory_bytes,
    )


def _seat(seat: Seat) -> SeatAnswer:
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


def _not_today(found: NotToday) -> NotTodayAnswer:
    return NotTodayAnswer(
        reason=found.reason,
        num_gpus=found.num_gpus,
        free_gpus=found.free_gpus,
        total_gpus=found.total_gpus,
        held=[
            HeldAnswer(
                hold=claim.hold.value,
                holder=claim.holder,
                num_gpus=claim.num_gpus,
                until=timestamp_or_none(claim.until),
            )
            for claim in found.claims
        ],
        possible_at=None if found.possible_at is None else timestamp(found.possible_at),
    )
