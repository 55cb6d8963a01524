"""A death of the controller at any request and at any line of its loop.

Whoever comes next resizes and releases once, decides once, and tells at most once.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from service import kueue
from service.kueue import lease
from service.kueue.api import ObjectKey
from service.kueue.resources import CHECKS, JOBS
from tests.unit.kueue.clusters import FakeCluster, KilledError, Reaper
from tests.unit.kueue.fakes import FakeHeadroom, Replica, a_job, a_workload, put_workload, says
from tests.unit.kueue.test_gates import count_gpus, read_gates

PATIENCE_S = 30.0
PRODUCT = "NVIDIA-A100-SXM4-80GB"
FOLDER = Path(kueue.__file__).parent
LOOP = ("asking", "checks", "controller", "gates", "informer", "lease", "queue", "reports")
HELPERS = ("api", "breaker", "errors", "events", "metrics", "pod_sets")
"""Modules that run while the controller leads; what helpers send is counted by requests."""
Line = tuple[str, int]
Writes = tuple[tuple[str, str], ...]


class World:
    """A gated job that needs two GPUs, a Workload that waits for a check, and who looks at them."""

    def __init__(self, reaper: Reaper) -> None:
        """Store both; ``reaper`` ends whoever looks at them."""
        self.reaper = reaper
        self.cluster = FakeCluster(reaper=reaper)
        self._checked = put_workload(self.cluster, a_workload(), PRODUCT)
        job = a_job()
        job["metadata"]["name"] = "gated"
        self._gated = self.cluster.put(JOBS, job)
        self._check = ObjectKey(resource=CHECKS, namespace=None, name="headroom")
        self._headroom = FakeHeadroom(response=says("does_not_fit", gpus=2), reaper=reaper)
        self._headroom.by_product = {PRODUCT: says("fits")}

    def live(self, is_done: Callable[[], bool]) -> bool:
        """Run a process until something holds; return whether it died before."""

        async def main() -> None:
            # A container that is started again has the name of its pod, and its lease.
            controller = Replica(cluster=self.cluster, headroom=self._headroom).make_controller()
            with anyio.fail_after(PATIENCE_S):
                async with anyio.create_task_group() as group:
                    group.start_soon(controller.run)
                    while not is_done():
                        await anyio.lowlevel.checkpoint()
                    group.cancel_scope.cancel()

        try:
            anyio.run(main)
        except BaseException:
            # Of a death in a generator the loop raises an error of its own.
            if not self.reaper.is_dead:
                raise
            return True
        return False

    def list_writes(self) -> Writes:
        """Return what was written so far, of which the cluster's state follows."""
        return tuple((method, path) for method, path, _ in self.cluster.requests)

    def is_decided(self) -> bool:
        """Return whether gate and check are decided, both are told, and the lease is renewed."""
        told = {each["reason"] for each in self.cluster.list_events()}
        return (
            self.is_stored()
            and self.cluster.watches >= 3
            and told == {"HeadroomResized", "HeadroomCheckReady"}
            and len(self.cluster.list_writes("/leases")) >= 2
        )

    def is_stored(self) -> bool:
        """Return whether all is decided, told or not."""
        [ours, _] = self.cluster.get(self._checked)["status"]["admissionChecks"]
        conditions = self.cluster.get(self._check).get("status", {}).get("conditions")
        is_open = read_gates(self.cluster.get(self._gated)) is None
        return is_open and ours["state"] == "Ready" and bool(conditions)

    def assert_right_once(self) -> None:
        """Assert that both were decided as they should be, and that nothing was done twice."""
        assert count_gpus(self.cluster.get(self._gated)) == "2"
        for part in ("/jobs/gated", "/workloads/", "/admissionchecks/"):
            assert len(self.cluster.list_writes(part)) == 1, part
        assert len(self.cluster.list_events()) <= 2


@pytest.fixture(autouse=True)
def _renew_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "RETRY_S", 0.001)


@contextmanager
def watch_lines(see: Callable[[Line], None]) -> Iterator[None]:
    """Call a function at each line of the controller that runs; what it raises is raised there."""

    def trace(frame: FrameType, event: str, _argument: object) -> Any:  # noqa: ANN401 - itself
        path = frame.f_code.co_filename
        if not path.startswith(folder):
            return None
        if event == "line":
            see((path, frame.f_lineno))
        return trace

    folder, before = str(FOLDER), sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@pytest.fixture(scope="module", name="lines")
def _record_lines() -> dict[Line, Writes]:
    """Return the lines of a life without death, in the order in which they ran first, with what was
    written before each.
    """
    seen: dict[Line, Writes] = {}
    world = World(Reaper())

    def see(line: Line) -> None:
        if line not in seen:
            seen[line] = world.list_writes()

    with pytest.MonkeyPatch.context() as patch, watch_lines(see):
        patch.setattr(lease, "RETRY_S", 0.001)
        assert not world.live(world.is_decided)
    return seen


def test_a_life_runs_every_part_of_the_loop(lines: dict[Line, Writes]) -> None:
    """So that deaths below are at all of them."""
    assert {Path(path).stem for path, _ in lines} == {*LOOP, *HELPERS}


def choose_places(lines: dict[Line, Writes], module: str) -> list[Line]:
    """Return the first and the last line of a module after each of the writes."""
    ours = {line: writes for line, writes in lines.items() if Path(line[0]).stem == module}
    last = {writes: line for line, writes in ours.items()}
    first = {writes: line for line, writes in reversed(ours.items())}
    return [line for line in ours if line in {*first.values(), *last.values()}]


@pytest.mark.parametrize("module", LOOP)
def test_a_death_at_any_line_ends_right_once(lines: dict[Line, Writes], module: str) -> None:
    """Each line that runs while a job is sized, a Workload is decided and a lease is renewed.

    All that outlives a process is what it wrote: lines with the same writes before them are one
    death, and two of them die it. Of deaths that leave the same behind, one is lived on from.
    """
    places = choose_places(lines, module)
    seen: set[Writes] = set()

    assert places
    for place in places:
        world = World(Reaper())
        with watch_lines(partial(_kill, world.reaper, place)):
            assert world.live(world.is_decided), place
        left = world.list_writes()
        if left in seen:
            continue
        seen.add(left)
        world.reaper.revive()
        assert not world.live(world.is_stored), place
        world.assert_right_once()


def _kill(reaper: Reaper, place: Line, line: Line) -> None:
    if line == place and not reaper.is_dead:
        reaper.is_dead = True
        raise KilledError


@pytest.mark.parametrize("is_late", [False, True], ids=["before", "after"])
def test_a_death_at_any_request_ends_right_once(*, is_late: bool) -> None:
    """Whether the server had it or not."""
    whole = World(Reaper())
    assert not whole.live(whole.is_decided)

    assert whole.reaper.count > 20
    for at in range(1, whole.reaper.count + 1):
        world = World(Reaper(at=at, is_late=is_late))
        world.live(world.is_decided)
        world.reaper.revive()
        assert not world.live(world.is_stored), at
        world.assert_right_once()
