"""Promises are kept: nothing is promised twice, and what ends is free again."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from service.base.errors import (
    ClusterNotFoundError,
    GpusNotFreeError,
    IdempotencyConflictError,
    ReservationNotFoundError,
)
from service.contract.to_answer.inventories import build_cluster_answer
from service.db.pages import PageRequest
from service.planner.cluster.grants import ANYWHERE
from service.planner.cluster.inventory import ClusterInventory, Node, Pool
from service.planner.cluster.reservation import Share
from service.usecases.clusters import clusters, reservations
from service.usecases.idempotency import RequestKey
from service.usecases.stored import StoredReservation
from tests.integration.usecases.reserving import HOUR, INVENTORY, Sessions, free_of, reserve, share


@pytest.fixture(autouse=True)
def _cluster(sessions: Sessions) -> None:
    clusters.create(sessions, name="c", inventory=INVENTORY)


def test_what_is_reserved_comes_back(sessions: Sessions) -> None:
    """Shares, holder and times survive storage, and the cluster shows what is left."""
    made = reserve(
        sessions,
        share(gpu_indices=(4, 5, 6, 7), host_memory_bytes=600),
        share("n4", 2, mig_profile="1g.10gb"),
    )

    assert reservations.read(sessions, "c", made.id) == made
    assert made.expires_at - made.created_at == HOUR
    assert clusters.read(sessions, "c").reservations[0].shares == made.shares
    assert free_of(sessions) == {"a100": 4 + 5 + 7, "l4": 6}


def test_fifty_askers_are_promised_exactly_what_is_free(sessions: Sessions) -> None:
    """Of fifty who want two GPUs of one node at once, four get them, and each of the others learns
    what is free.
    """

    def ask(number: int) -> GpusNotFreeError | StoredReservation:
        try:
            return reserve(sessions, share(num_gpus=2), holder=f"asker-{number}")
        except GpusNotFreeError as refusal:
            return refusal

    with ThreadPoolExecutor(50) as threads:
        answers = list(threads.map(ask, range(50)))

    promised = [answer for answer in answers if isinstance(answer, StoredReservation)]
    refused = [answer for answer in answers if isinstance(answer, GpusNotFreeError)]
    place = {"pool": "a100", "node": "n1", "mig_profile": None, "wanted_gpus": 2, "free_gpus": 0}
    assert (len(promised), len({one.holder for one in promised}), len(refused)) == (4, 4, 46)
    assert all(refusal.extra == {"places": [place]} for refusal in refused)
    assert {refusal.detail for refusal in refused} == {
        "n1 has 0 free of the 2 that are wanted; nothing was reserved"
    }
    assert free_of(sessions)["a100"] == 5 + 7


def test_fifty_askers_for_any_node_fill_the_pool(sessions: Sessions) -> None:
    """Whoever asks for GPUs of a pool gets some until the last is promised; no node gives more than
    it has.
    """

    def ask(_number: int) -> StoredReservation | None:
        try:
            return reserve(sessions, share(ANYWHERE, 3))
        except GpusNotFreeError:
            return None

    with ThreadPoolExecutor(50) as threads:
        promised = [answer for answer in threads.map(ask, range(50)) if answer is not None]

    given = Counter[str]()
    for one in promised:
        given += Counter({part.node: part.num_gpus for part in one.shares})
    assert len(promised) == (8 + 5 + 7) // 3
    assert all(given[node] <= most for node, most in {"n1": 8, "n2": 5, "n3": 0, "n4": 7}.items())


def test_all_or_nothing(sessions: Sessions) -> None:
    """When one of several shares is not free, none is promised, and every place that lacks is
    told.
    """
    with pytest.raises(
        GpusNotFreeError, match="n2 has 5 free of the 6 that are wanted; n3 is drained; nothing"
    ) as refused:
        reserve(sessions, share("n1", 8), share("n2", 6), share("n3", 1))

    assert [place["node"] for place in refused.value.extra["places"]] == ["n2", "n3"]  # type: ignore[attr-defined]  # a list
    assert free_of(sessions)["a100"] == 20


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (share("n2", 1, gpu_indices=(1,)), "GPU 1 of n2 is taken"),
        (share("n4", 6, mig_profile="1g.10gb"), "n4 has 5 1g.10gb slices free of the 6"),
        (share("n1", 1, host_memory_bytes=1001), "n1 has .* of host memory free of the"),
        (share(ANYWHERE, 21), "pool a100 has 20 free of the 21"),
        (share(ANYWHERE, 7, pool="l4"), "pool l4 has 6 free of the 7"),
    ],
)
def test_what_is_not_free_today(sessions: Sessions, wanted: Share, reason: str) -> None:
    """Indices, slices, host memory and whole pools are held against what others have."""
    with pytest.raises(GpusNotFreeError, match=reason):
        reserve(sessions, wanted)


def test_named_and_any_node_do_not_share_a_gpu(sessions: Sessions) -> None:
    """What one request wants of a node and of the whole pool is added up per node."""
    made = reserve(sessions, share("n1", 8), share(ANYWHERE, 12))

    assert sum(part.num_gpus for part in made.shares) == 20
    assert len({part.node for part in made.shares}) == len(made.shares)
    assert free_of(sessions)["a100"] == 0


def test_counted_nodes_have_names(sessions: Sessions) -> None:
    """The nodes of a counted pool are reserved as pool-1, pool-2 and so on."""
    made = reserve(sessions, share("l4-3", 2, pool="l4"))

    assert made.shares[0].node == "l4-3"
    assert free_of(sessions)["l4"] == 4


def test_a_repeated_request_gets_the_first_promise(sessions: Sessions) -> None:
    """Retries that overlap make one reservation; another body under the same key is refused."""
    key = RequestKey(key="k", route="r", body=b"{}")
    with ThreadPoolExecutor(16) as threads:
        made = {
            one.id
            for one in threads.map(
                lambda _: reserve(sessions, share(num_gpus=8), key=key), range(16)
            )
        }

    assert len(made) == 1
    with pytest.raises(IdempotencyConflictError) as refused:
        reserve(sessions, share(), key=RequestKey(key="k", route="r", body=b"[]"))
    assert refused.value.extra == {"reservation_id": str(made.pop())}


def test_a_refused_request_leaves_the_key_free(sessions: Sessions) -> None:
    """Who was refused may try again with the same key, and get what has become free."""
    key = RequestKey(key="k", route="r", body=b"{}")
    first = reserve(sessions, share(num_gpus=8))
    with pytest.raises(GpusNotFreeError):
        reserve(sessions, share(num_gpus=8), key=key)
    reservations.release(sessions, "c", first.id, if_match="*")

    assert reserve(sessions, share(num_gpus=8), key=key).id != first.id


def test_pages_are_newest_first(sessions: Sessions) -> None:
    """Following the cursors shows every live reservation once."""
    made = [reserve(sessions, share(num_gpus=1)).id for _ in range(3)]
    first = reservations.list_page(sessions, "c", PageRequest(limit=2))
    second = reservations.list_page(sessions, "c", PageRequest(limit=2, cursor=first.next_cursor))

    assert [one.id for one in (*first.items, *second.items)] == made[::-1]
    assert second.next_cursor is None


def test_reservations_go_with_their_cluster_and_stay_through_its_replacement(
    sessions: Sessions,
) -> None:
    """A new inventory keeps the promises; a deleted cluster has none, and neither has the next of
    its name.
    """
    reserve(sessions, share(num_gpus=4))
    clusters.replace(sessions, "c", inventory=INVENTORY, if_match="*")
    after = free_of(sessions)["a100"]
    clusters.delete(sessions, "c", if_match="*", ends_reservations=True)
    with pytest.raises(ClusterNotFoundError):
        reservations.list_page(sessions, "c", PageRequest())
    clusters.create(sessions, name="c", inventory=INVENTORY)

    assert (after, free_of(sessions)["a100"]) == (16, 20)
    with pytest.raises(ReservationNotFoundError, match="has no reservation"):
        reservations.read(sessions, "c", uuid4())


def test_a_replacement_says_what_it_cannot_keep(sessions: Sessions) -> None:
    """An inventory is what is there, so that it is stored; who was promised more than that is
    named.
    """
    reserve(sessions, share(num_gpus=4))
    kept = build_cluster_answer(clusters.read(sessions, "c"))
    stored = clusters.replace(
        sessions, "c", inventory=ClusterInventory(pools=INVENTORY.pools[1:]), if_match="*"
    )

    assert kept.warnings == []
    assert build_cluster_answer(stored).warnings == [
        "reservations of alice hold 4 GPUs of a100/n1, which is not in the inventory"
    ]


def test_an_inventory_that_counts_the_job_as_well_owes_nothing(sessions: Sessions) -> None:
    """A node that reports the reserved GPUs as used has none free, and not fewer than none."""
    reserve(sessions, share(num_gpus=8))
    full = ClusterInventory(
        pools=(
            Pool(
                name="a100", gpu="L4", gpus_per_node=8, nodes=(Node(name="n1", allocated_gpus=8),)
            ),
        ),
    )
    clusters.replace(sessions, "c", inventory=full, if_match="*")

    assert free_of(sessions) == {"a100": 0}
