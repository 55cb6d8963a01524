"""Placement of a job on the named nodes of a cluster.

A job that cannot be placed must wait, or can never run there.
"""

from service.planner.cluster.assignments import (
    Assignment,
    Blocked,
    Impossible,
    Placement,
    PlacementRequest,
    build_placement_request,
)
from service.planner.cluster.packing import find_placement
from service.planner.cluster.reasons import explain_blocked, explain_impossible
from service.planner.cluster.supply import KindSupply, Supply, build_supply, clear_supply

__all__ = [
    "Assignment",
    "Blocked",
    "Impossible",
    "KindSupply",
    "Placement",
    "PlacementRequest",
    "Supply",
    "build_placement_request",
    "build_supply",
    "clear_supply",
    "find_placement",
    "place",
]


def place(supply: Supply, request: PlacementRequest) -> Placement | Blocked | Impossible:
    """Place a job, or explain why it cannot be placed.

    The answer says where the job runs, or who is in its way, or why even the empty cluster is too
    small.
    """
    placement = find_placement(supply, request)
    if placement is not None:
        return placement
    empty = clear_supply(supply)
    if find_placement(empty, request) is None:
        return explain_impossible(empty, request)
    return explain_blocked(supply, request)
