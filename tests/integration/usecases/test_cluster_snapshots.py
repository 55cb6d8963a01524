"""A cluster that is read while another replaces it."""

from dataclasses import replace

from sqlalchemy import event

from service.planner.cluster.inventory import ClusterInventory
from service.usecases.clusters import clusters, reservations
from tests.integration.usecases.reserving import INVENTORY, Sessions, reserve, share


def test_a_snapshot_is_of_one_moment(sessions: Sessions) -> None:
    """Its version, its nodes and its reservations are those before the replacement."""
    stored = clusters.create(sessions, name="c", inventory=INVENTORY)
    fewer = ClusterInventory(pools=(replace(INVENTORY.pools[1], num_nodes=1),))

    def replace_and_reserve(*_: object) -> None:
        clusters.replace(sessions, "c", inventory=fewer, if_match=f'"{stored.etag}"')
        reserve(sessions, share("l4-1", 1, pool="l4"))

    event.listen(sessions.kw["bind"], "after_cursor_execute", replace_and_reserve, once=True)
    snapshot = reservations.read_snapshot(sessions, "c")
    after = reservations.read_snapshot(sessions, "c")

    assert (snapshot.etag, snapshot.inventory) == (stored.etag, INVENTORY)
    assert snapshot.reservations == ()
    assert (after.version, after.inventory, len(after.reservations)) == (2, fewer, 1)
