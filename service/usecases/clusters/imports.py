"""Imports of clusters: what they would change, and their storage."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from service.base.errors import ClusterNotFoundError, InvalidRequestError
from service.db.queries import clusters as queries
from service.db.session import transaction
from service.formats.inventories.observed import MAX_NODES, PARTIAL, ObservedInventory, Omission
from service.planner.cluster.adoption import ImportScope, adopt_pools
from service.planner.cluster.broken_reservations import list_broken_reservations
from service.planner.cluster.changes import Change, list_changes
from service.planner.cluster.inventory import ClusterInventory
from service.planner.cluster.observations import list_observation_warnings
from service.planner.cluster.placement import build_supply
from service.usecases.clusters.observed_gpus import NamedGpu
from service.usecases.clusters.observed_pools import ObservedPools, UnknownGpu, build_pools
from service.usecases.preconditions import check_if_match
from service.usecases.stored import Sessions, StoredCluster

MAX_POOLS = 100
_EMPTY = ClusterInventory(pools=())


@dataclass(frozen=True, slots=True, kw_only=True)
class NewImport:
    """Nodes to import; ``aliases`` say what names of GPUs mean.

    Without ``scope`` it is the usual one of the tool, without ``observed_at`` they were seen now.
    """

    observed: ObservedInventory
    aliases: Mapping[str, NamedGpu] = field(default_factory=dict)
    scope: ImportScope | None = None
    observed_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSums:
    """Nodes, GPUs and free GPUs of a cluster."""

    nodes: int
    gpus: int
    free_gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOutcome:
    """Changes of an import.

    ``etag`` is that of the stored cluster, None where there is none; ``is_new`` where there was
    none before.
    """

    observed_at: datetime
    changes: tuple[Change, ...]
    before: ClusterSums
    after: ClusterSums
    unknown_gpus: tuple[UnknownGpu, ...]
    omissions: tuple[Omission, ...]
    warnings: tuple[str, ...]
    etag: str | None
    is_new: bool
    is_applied: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    pools: ObservedPools
    observed_at: datetime
    scope: ImportScope
    tool: str


def preview(sessions: Sessions, name: str, new: NewImport) -> ImportOutcome:
    """Return what an import would change, and store nothing."""
    draft = _make_draft(new)
    with transaction(sessions) as session:
        stored = queries.read_cluster(session, name)
    after = _adopt(stored, draft)
    return _make_outcome(stored, after, draft, new, etag=None if stored is None else stored.etag)


def apply(sessions: Sessions, name: str, new: NewImport, *, if_match: str | None) -> ImportOutcome:
    """Store an import into the cluster whose ETag the caller has seen.

    A cluster that there is not is created, where no ETag is named. An import that changes nothing
    records that the nodes were seen, under the same version.
    """
    draft = _make_draft(new)
    with transaction(sessions) as session:
        stored = queries.read_cluster(session, name, lock=True)
        if stored is None and if_match is not None:
            message = f"there is no cluster {name!r}; leave If-Match out to store it"
            raise ClusterNotFoundError(message, name=name)
        if stored is not None:
            check_if_match(if_match, stored.etag)
        after = _adopt(stored, draft)
        changes = list_changes(None if stored is None else stored.inventory, after)
        if stored is None:
            if not queries.create_cluster(session, name, after):
                message = f"somebody stores a cluster {name!r} right now; import it again"
                raise InvalidRequestError(message)
        elif changes:
            queries.replace_inventory(session, stored.id, after)
        else:
            names = [node.name for pool in draft.pools.pools for node in pool.nodes or ()]
            source = new.observed.source[:80]
            queries.touch_nodes(session, stored.id, names, source=source, moment=draft.observed_at)
        etag = queries.read_etag(session, name)
    return _make_outcome(stored, after, draft, new, etag=etag, is_applied=True)


def _make_draft(new: NewImport) -> _Draft:
    now = datetime.now(UTC)
    moment = new.observed_at or new.observed.observed_at or now
    moment = min(moment, now)
    usual = ImportScope.NAMED if new.observed.format in PARTIAL else ImportScope.SOURCE
    return _Draft(
        pools=build_pools(new.observed, observed_at=moment, aliases=new.aliases),
        observed_at=moment,
        scope=new.scope or usual,
        tool=new.observed.format.value,
    )


def _adopt(stored: StoredCluster | None, draft: _Draft) -> ClusterInventory:
    """Return the inventory after the import.

    Refuses one that is too large or empty.
    """
    after = adopt_pools(
        None if stored is None else stored.inventory,
        draft.pools.pools,
        tool=draft.tool,
        scope=draft.scope,
    )
    num_nodes = sum(len(pool.list_nodes()) for pool in after.pools)
    reason = None
    if not after.pools:
        reason = "the content has no node with GPUs, and nothing is stored beside it"
    elif num_nodes > MAX_NODES:
        reason = f"the cluster would have {num_nodes:,} nodes, and may have {MAX_NODES:,}"
    elif len(after.pools) > MAX_POOLS:
        reason = f"the cluster would have {len(after.pools)} pools, and may have {MAX_POOLS}"
    if reason is not None:
        raise InvalidRequestError(reason, errors=[{"field": "content", "message": reason}])
    return after


def _make_outcome(
    stored: StoredCluster | None,
    after: ClusterInventory,
    draft: _Draft,
    new: NewImport,
    *,
    etag: str | None,
    is_applied: bool = False,
) -> ImportOutcome:
    before = _EMPTY if stored is None else stored.inventory
    return ImportOutcome(
        observed_at=draft.observed_at,
        changes=list_changes(before, after),
        before=_sum_up(before, stored),
        after=_sum_up(after, stored),
        unknown_gpus=draft.pools.unknown_gpus,
        omissions=draft.pools.omissions,
        warnings=(*new.observed.notes, *_iter_warnings(stored, after, draft)),
        etag=etag,
        is_new=stored is None,
        is_applied=is_applied,
    )


def _sum_up(inventory: ClusterInventory, stored: StoredCluster | None) -> ClusterSums:
    supply = build_supply(inventory, () if stored is None else stored.reservations)
    return ClusterSums(
        nodes=sum(len(pool.nodes) for pool in supply.pools),
        gpus=sum(pool.pool.total_gpus for pool in supply.pools),
        free_gpus=sum(pool.free_gpus for pool in supply.pools),
    )


def _iter_warnings(
    stored: StoredCluster | None, after: ClusterInventory, draft: _Draft
) -> Iterator[str]:
    if stored is not None:
        yield from list_broken_reservations(after, stored.reservations)
    names = {node.name for pool in draft.pools.pools for node in pool.nodes or ()}
    for pool in after.pools:
        remaining = sum(node.name not in names for node in pool.nodes or ())
        if remaining or pool.num_nodes:
            yield (
                f"{remaining + (pool.num_nodes or 0)} nodes of pool {pool.name} stay, which the "
                'content does not have; scope "cluster" removes them'
            )
    yield from list_observation_warnings(after, draft.observed_at)
