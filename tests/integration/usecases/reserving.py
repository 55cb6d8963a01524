"""A cluster of several pools, and promises of its GPUs."""

from datetime import timedelta

from sqlalchemy.orm import Session, sessionmaker

from service.planner.cluster.inventory import (
    Allocation,
    ClusterInventory,
    MigSlices,
    Node,
    NodeState,
    Pool,
)
from service.planner.cluster.reservation import Share
from service.usecases.clusters import reservations
from service.usecases.clusters.reservations import NewReservation
from service.usecases.idempotency import RequestKey
from service.usecases.stored import StoredReservation

Sessions = sessionmaker[Session]
NODES = (
    Node(name="n1"),
    Node(
        name="n2",
        allocated_gpus=3,
        allocations=(Allocation(holder="vision", num_gpus=2, gpu_indices=(0, 1)),),
    ),
    Node(name="n3", state=NodeState.DRAINED),
    Node(name="n4", mig_gpus=1, mig_slices=(MigSlices(profile="1g.10gb", total=7, allocated=2),)),
)
INVENTORY = ClusterInventory(
    pools=(
        Pool(
            name="a100", gpu="A100-SXM4-80GB", gpus_per_node=8, nodes=NODES, host_memory_bytes=1000
        ),
        Pool(name="l4", gpu="L4", gpus_per_node=2, num_nodes=3),
    ),
)
HOUR = timedelta(hours=1)


def share(node: str = "n1", num_gpus: int = 4, **changes: object) -> Share:
    """Build a share of the pool of A100."""
    right: dict[str, object] = {"pool": "a100", "node": node, "num_gpus": num_gpus}
    return Share(**(right | changes))  # type: ignore[arg-type]  # each test says what it changes


def reserve(
    sessions: Sessions,
    *shares: Share,
    holder: str = "alice",
    key: RequestKey | None = None,
    lives: timedelta = HOUR,
) -> StoredReservation:
    """Reserve shares of the test's cluster."""
    return reservations.reserve(
        sessions, "c", NewReservation(holder=holder, gpus=shares, expires_in=lives), idempotency=key
    )


def free_of(sessions: Sessions) -> dict[str, int]:
    """Return the free GPUs of every pool."""
    return {
        pool.pool.name: pool.free_gpus for pool in reservations.read_supply(sessions, "c").pools
    }
