"""Election: one replica acts, another takes over, and a lost lease ends what was begun."""

from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel

from service.kueue.api import ObjectKey
from service.kueue.lease import DEADLINE_S, DURATION_S, Elector
from service.kueue.resources import LEASES
from tests.unit.kueue.clusters import FakeCluster
from tests.unit.kueue.fakes import FakeHeadroom, Replica

KEY = ObjectKey(resource=LEASES, namespace="headroom", name="kueue")


def candidates(cluster: FakeCluster) -> tuple[Elector, Elector]:
    """Return two replicas' candidates."""
    headroom = FakeHeadroom()
    first, second = (
        Replica(cluster=cluster, headroom=headroom, name=name).make_elector() for name in "ab"
    )
    return first, second


def play(script: Callable[[FakeCluster, Elector, Elector], Awaitable[None]]) -> FakeCluster:
    """Run two candidates by a script."""
    cluster = FakeCluster()

    async def main() -> None:
        await script(cluster, *candidates(cluster))

    anyio.run(main)
    return cluster


def test_of_two_replicas_one_leads() -> None:
    """Whoever makes the lease; it renews, and the other waits."""

    async def script(_cluster: FakeCluster, first: Elector, second: Elector) -> None:
        for _ in range(3):
            await first.tick()
            await second.tick()
        assert (first.leads(), second.leads()) == (True, False)

    lease = play(script).get(KEY)["spec"]

    assert (lease["holderIdentity"], lease["leaseTransitions"]) == ("a", 1)
    assert lease["acquireTime"] < lease["renewTime"]


def test_a_lease_that_is_given_up_is_taken_at_once() -> None:
    """A replica that ends in order lets nobody wait."""

    async def script(_cluster: FakeCluster, first: Elector, second: Elector) -> None:
        await first.tick()
        await first.release()
        await second.tick()
        assert (first.leads(), second.leads()) == (False, True)

    assert play(script).get(KEY)["spec"]["leaseTransitions"] == 2


def test_a_lease_whose_holder_is_silent_is_taken_in_the_end() -> None:
    """After its time by the clock of whoever waits; clocks of nodes need not agree."""

    async def script(cluster: FakeCluster, first: Elector, second: Elector) -> None:
        await first.tick()
        await second.tick()
        version, since = second._seen  # noqa: SLF001 - as if the time had passed
        assert not second.leads()
        second._seen = (version, since - DURATION_S - 1)  # noqa: SLF001 - as above
        await second.tick()
        assert second.leads()
        await first.tick()
        assert not first.leads()
        assert cluster.get(KEY)["spec"]["holderIdentity"] == "b"

    play(script)


def test_two_that_take_it_at_once_are_told_apart() -> None:
    """The API stores one of them: the other has named an old version."""

    async def script(cluster: FakeCluster, first: Elector, second: Elector) -> None:
        cluster.refusals.append(("PUT", "/leases/", 409))
        await first.tick()
        await first.release()
        cluster.refusals.append(("PUT", "/leases/", 409))
        await second.tick()
        assert not second.leads()

    play(script)


def test_a_leader_without_an_api_stops_before_another_may_act() -> None:
    """It does not know whether its lease was taken."""

    async def script(cluster: FakeCluster, first: Elector, _second: Elector) -> None:
        await first.tick()
        cluster.refusals += [("GET", "/leases/", 500)]
        await first.tick()
        assert first.leads()
        first._renewed_at = anyio.current_time() - DEADLINE_S  # noqa: SLF001 - as if it had passed
        assert not first.leads()

    play(script)

    assert DEADLINE_S < DURATION_S


def test_what_leads_is_cancelled_with_its_lease() -> None:
    """And the lease is given up at the end."""
    spans: list[str] = []

    async def script(_cluster: FakeCluster, first: Elector, _second: Elector) -> None:
        async with anyio.create_task_group() as group:

            async def lead() -> None:
                spans.append("begun")
                try:
                    await anyio.sleep_forever()
                finally:
                    spans.append("ended")

            async def lead_and_stop() -> None:
                group.start_soon(first.run, lead)
                while not spans:
                    await anyio.lowlevel.checkpoint()
                group.cancel_scope.cancel()

            await lead_and_stop()

    cluster = play(script)

    assert spans == ["begun", "ended"]
    assert cluster.get(KEY)["spec"]["holderIdentity"] == ""


def test_a_leader_stops_when_its_lease_may_be_taken() -> None:
    """Also while its next renewal hangs: what it does ends at the deadline, not after the try."""

    async def script(cluster: FakeCluster, first: Elector, _second: Elector) -> None:
        await first.tick()
        renewed_at = first._renewed_at  # noqa: SLF001 - as if the time had passed
        assert renewed_at is not None
        first._renewed_at = renewed_at - DEADLINE_S + 0.05  # noqa: SLF001 - as above
        with anyio.fail_after(1.0):
            await first._lead(anyio.sleep_forever)  # noqa: SLF001 - one term of office
        assert cluster.get(KEY)["spec"]["holderIdentity"] == "a"

    play(script)
