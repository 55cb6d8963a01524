"""Clusters are stored whole, versioned, and changed only by those who have seen them."""

import threading
from datetime import timedelta

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from service.base.errors import (
    ClusterExistsError,
    ClusterNotFoundError,
    ClusterReservedError,
    InvalidCursorError,
    PreconditionFailedError,
    PreconditionRequiredError,
    ServiceError,
)
from service.db.pages import Page, PageRequest
from service.db.records.stored import StoredCluster
from service.db.session import transaction
from service.planner.cluster.grants import ANYWHERE
from service.planner.cluster.inventory import ClusterInventory, Node, NodeState, Pool
from service.planner.cluster.reservation import Share
from service.usecases.clusters import clusters, reservations
from service.usecases.clusters.reservations import NewReservation
from tests.locks import wait_for_blocked_transaction

COUNTED = Pool(
    name="a100",
    gpu="A100-SXM4-80GB",
    gpus_per_node=8,
    num_nodes=12,
    nvlink_island_size=8,
    host_memory_bytes=2 * 1024**4,
    network_bytes_per_second=200 * 10**9,
    price_per_gpu_hour=1.79,
)
NAMED = Pool(
    name="h100",
    gpu="H100-SXM5-80GB",
    gpus_per_node=4,
    nodes=(Node(name="n2", allocated_gpus=3), Node(name="n1", state=NodeState.DRAINED)),
)
INVENTORY = ClusterInventory(pools=(NAMED, COUNTED))
SMALLER = ClusterInventory(pools=(COUNTED,))


def quoted(stored: StoredCluster) -> str:
    """Return the ETag as the header carries it."""
    return f'"{stored.etag}"'


def test_what_is_stored_comes_back(sessions: sessionmaker[Session]) -> None:
    """Every number, the order of pools and nodes, and what was left open survive storage."""
    created = clusters.create(sessions, name="prod-a", inventory=INVENTORY)

    assert created == clusters.read(sessions, "prod-a")
    assert (created.name, created.version, created.inventory) == ("prod-a", 1, INVENTORY)
    assert created.created_at == created.updated_at


def test_a_pool_without_nodes_stays_one(sessions: sessionmaker[Session]) -> None:
    """No named node is another statement than a count that is absent."""
    empty = ClusterInventory(pools=(Pool(name="p", gpu="T4", gpus_per_node=1, nodes=()),))

    assert clusters.create(sessions, name="c", inventory=empty).inventory == empty


def test_a_name_is_taken_once(sessions: sessionmaker[Session]) -> None:
    """The second of two clusters of one name is refused, and the first stays as it is."""
    first = clusters.create(sessions, name="prod-a", inventory=INVENTORY)

    with pytest.raises(ClusterExistsError, match="'prod-a'"):
        clusters.create(sessions, name="prod-a", inventory=SMALLER)

    assert clusters.read(sessions, "prod-a") == first


def test_a_cluster_that_is_not_there(sessions: sessionmaker[Session]) -> None:
    """Reading, replacing and deleting all say that there is none."""
    for act in (
        lambda: clusters.read(sessions, "x"),
        lambda: clusters.replace(sessions, "x", inventory=SMALLER, if_match="*"),
        lambda: clusters.delete(sessions, "x", if_match="*"),
    ):
        with pytest.raises(ClusterNotFoundError, match="'x'"):
            act()


def test_a_replacement_is_a_new_version(sessions: sessionmaker[Session]) -> None:
    """Nothing of the old inventory remains, and the ETag is another one."""
    old = clusters.create(sessions, name="c", inventory=INVENTORY)
    new = clusters.replace(sessions, "c", inventory=SMALLER, if_match=quoted(old))

    assert new == clusters.read(sessions, "c")
    assert (new.inventory, new.version, new.created_at) == (SMALLER, 2, old.created_at)
    assert new.etag != old.etag
    assert new.updated_at > old.updated_at


def test_a_change_needs_the_version_that_was_seen(sessions: sessionmaker[Session]) -> None:
    """Without If-Match 428, with a stale one 412, and in both cases nothing is changed."""
    old = clusters.create(sessions, name="c", inventory=INVENTORY)
    new = clusters.replace(sessions, "c", inventory=SMALLER, if_match=quoted(old))

    with pytest.raises(PreconditionRequiredError):
        clusters.replace(sessions, "c", inventory=INVENTORY, if_match=None)
    with pytest.raises(PreconditionFailedError):
        clusters.replace(sessions, "c", inventory=INVENTORY, if_match=quoted(old))
    with pytest.raises(PreconditionFailedError):
        clusters.delete(sessions, "c", if_match=quoted(old))

    assert clusters.read(sessions, "c") == new


def test_a_cluster_with_promises_stays_until_somebody_says_that_they_end(
    sessions: sessionmaker[Session],
) -> None:
    """Deleting it would end them silently: the refusal names whose they are, and ended ones keep
    nothing.
    """
    clusters.create(sessions, name="c", inventory=SMALLER)
    wanted = NewReservation(
        holder="alice",
        gpus=(Share(pool="a100", node=ANYWHERE, num_gpus=4),),
        expires_in=timedelta(hours=1),
    )
    promise = reservations.reserve(sessions, "c", wanted)
    with pytest.raises(ClusterReservedError, match="are reserved: alice until ") as refused:
        clusters.delete(sessions, "c", if_match="*")

    end = promise.expires_at.isoformat()
    assert refused.value.extra["reservations"] == [
        {"id": str(promise.id), "holder": "alice", "expires_at": end}
    ]
    reservations.release(sessions, "c", promise.id, if_match="*")
    clusters.delete(sessions, "c", if_match="*")


def test_a_deleted_cluster_is_gone(sessions: sessionmaker[Session]) -> None:
    """Its pools and nodes go with it, and its name is free."""
    stored = clusters.create(sessions, name="c", inventory=INVENTORY)
    clusters.delete(sessions, "c", if_match=quoted(stored))

    with transaction(sessions) as session:
        left = session.execute(
            text(
                "SELECT (SELECT count(*) FROM cluster_pools) + (SELECT count(*) FROM cluster_nodes)"
            ),
        )
        assert left.scalar_one() == 0
    assert clusters.create(sessions, name="c", inventory=SMALLER).version == 1


def test_a_version_of_an_earlier_life_is_stale(sessions: sessionmaker[Session]) -> None:
    """Somebody who saw a cluster that was deleted and made anew has not seen this one, though both
    are version 1.
    """
    earlier = clusters.create(sessions, name="c", inventory=INVENTORY)
    clusters.delete(sessions, "c", if_match=quoted(earlier))
    clusters.create(sessions, name="c", inventory=INVENTORY)

    with pytest.raises(PreconditionFailedError):
        clusters.delete(sessions, "c", if_match=quoted(earlier))


def test_of_two_changes_at_once_one_wins(sessions: sessionmaker[Session]) -> None:
    """Who waited for another's change learns that what he saw is stale; nobody's change is lost in
    silence.
    """
    stored = clusters.create(sessions, name="c", inventory=INVENTORY)
    refusals: list[ServiceError] = []

    def replace_later() -> None:
        try:
            clusters.replace(sessions, "c", inventory=INVENTORY, if_match=quoted(stored))
        except ServiceError as error:
            refusals.append(error)

    with transaction(sessions) as session:
        session.execute(text("UPDATE clusters SET version = version + 1"))
        thread = threading.Thread(target=replace_later)
        thread.start()
        wait_for_blocked_transaction(sessions)
    thread.join()

    assert [type(refusal) for refusal in refusals] == [PreconditionFailedError]
    assert clusters.read(sessions, "c").version == 2


def test_pages_are_newest_first_and_complete(sessions: sessionmaker[Session]) -> None:
    """Following the cursors shows every cluster once; the last page says that it is the last."""
    made = [
        clusters.create(sessions, name=f"c{number}", inventory=SMALLER).name for number in range(5)
    ]
    pages = [clusters.list_page(sessions, PageRequest(limit=2))]
    while (cursor := pages[-1].next_cursor) is not None:
        pages.append(clusters.list_page(sessions, PageRequest(limit=2, cursor=cursor)))

    assert [[item.name for item in page.items] for page in pages] == [
        ["c4", "c3"],
        ["c2", "c1"],
        ["c0"],
    ]
    assert made == ["c0", "c1", "c2", "c3", "c4"]


def test_a_full_last_page_has_no_cursor(sessions: sessionmaker[Session]) -> None:
    """Exactly as many clusters as the page holds is the end, not a page of nothing."""
    for name in ("a", "b"):
        clusters.create(sessions, name=name, inventory=SMALLER)

    assert clusters.list_page(sessions, PageRequest(limit=2)).next_cursor is None
    assert clusters.list_page(sessions, PageRequest(limit=1)).next_cursor is not None


def test_pages_do_not_shift(sessions: sessionmaker[Session]) -> None:
    """A cluster that is made between two pages is on neither, and one that is deleted takes no
    other with it.
    """
    for number in range(4):
        clusters.create(sessions, name=f"c{number}", inventory=SMALLER)
    first = clusters.list_page(sessions, PageRequest(limit=2))
    clusters.create(sessions, name="late", inventory=SMALLER)
    clusters.delete(sessions, "c2", if_match="*")
    second = clusters.list_page(sessions, PageRequest(limit=2, cursor=first.next_cursor))

    assert [item.name for item in second.items] == ["c1", "c0"]


def test_clusters_of_one_instant_are_all_shown(sessions: sessionmaker[Session]) -> None:
    """Equal times are ordered by id, so a page boundary between them loses none."""
    for number in range(6):
        clusters.create(sessions, name=f"c{number}", inventory=SMALLER)
    with transaction(sessions) as session:
        session.execute(text("UPDATE clusters SET created_at = '2026-01-01T00:00:00.123456Z'"))
    seen: list[str] = []
    page: Page[StoredCluster] = clusters.list_page(sessions, PageRequest(limit=1))
    seen += [item.name for item in page.items]
    while page.next_cursor is not None:
        page = clusters.list_page(sessions, PageRequest(limit=1, cursor=page.next_cursor))
        seen += [item.name for item in page.items]

    assert sorted(seen) == [f"c{number}" for number in range(6)]


def test_an_empty_list_is_a_page(sessions: sessionmaker[Session]) -> None:
    """Nothing stored is an answer."""
    assert clusters.list_page(sessions, PageRequest()) == Page(items=(), next_cursor=None)


def test_a_cursor_that_was_never_given_out(sessions: sessionmaker[Session]) -> None:
    """A made-up cursor is refused before the database is asked."""
    with pytest.raises(InvalidCursorError, match="next_cursor"):
        clusters.list_page(sessions, PageRequest(cursor="made-up"))
