"""Places a job on the named nodes of a cluster, or says whether it must wait or can never run there."""

from service.planner.cluster.assignments import Ask, Never, NotToday, Placement, Seat, ask_of
from service.planner.cluster.packing import find_placement
from service.planner.cluster.reasons import why_never, why_not_today
from service.planner.cluster.supply import KindSupply, Supply, clusters_as_supply, emptied

__all__ = [
    "Ask",
    "KindSupply",
    "Never",
    "NotToday",
    "Placement",
    "Seat",
    "Supply",
    "ask_of",
    "clusters_as_supply",
    "find_placement",
    "place",
]


def place(supply: Supply, ask: Ask) -> Placement | NotToday | Never:
    """Return where the job runs, or who is in its way, or why even the empty cluster is too small."""
    found = find_placement(supply, ask)
    if found is not None:
        return found
    empty = emptied(supply)
    if find_placement(empty, ask) is None:
        return why_never(empty, ask)
    return why_not_today(supply, ask)
