"""Lists and watches of the controller, and its queue."""

import itertools
import json

import anyio
import anyio.lowlevel
import pytest

from service.kueue.api import ObjectKey
from service.kueue.errors import AskError, KubeError
from service.kueue.informer import Informer
from service.kueue.queue import MAX_PAUSE_S, WorkQueue, get_pause_s
from service.kueue.resources import JOB_SETS, JOBS
from tests.unit.kueue.clusters import FakeCluster, Json, KilledError
from tests.unit.kueue.fakes import a_job


def watch(cluster: FakeCluster) -> list[Json]:
    """Run one round of an informer of jobs; return what it was shown."""
    shown: list[Json] = []
    informer = Informer(api=cluster.connect(), resource=JOBS, observe=shown.append, resync_s=300.0)
    anyio.run(informer.run_round)
    return shown


def test_a_list_is_read_page_by_page() -> None:
    """The pages of one version, then what changed since."""
    cluster = FakeCluster(ended=(json.dumps({"type": "BOOKMARK", "object": {}}),))
    for number in range(5):
        job = a_job()
        job["metadata"]["name"] = f"j{number}"
        cluster.put(JOBS, job)
    cluster.changes = [("/apis/batch/v1/namespaces/ml/jobs/j1", a_job())]

    shown = watch(cluster)

    assert [each["metadata"]["name"] for each in shown] == ["j0", "j1", "j2", "j3", "j4", "tune"]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (json.dumps({"type": "ERROR", "object": {"code": 410, "message": "too old"}}), 410),
        ('{"type": "ADDED", "obj', 0),
        ("[]", 0),
    ],
    ids=["version too old", "cut off", "no object"],
)
def test_a_watch_that_breaks_is_told(line: str, code: int) -> None:
    """Whoever runs it lists anew."""
    with pytest.raises(KubeError) as caught:
        watch(FakeCluster(ended=(line,)))

    assert caught.value.code == code


def test_a_watch_whose_version_is_too_old_lists_anew() -> None:
    """What was missed meanwhile is in the next list; pauses grow while it fails, and only then."""
    gone = json.dumps({"type": "ERROR", "object": {"code": 410, "message": "too old"}})
    cluster, pauses = FakeCluster(ended=(gone,)), list[float]()
    shown: list[Json] = []

    async def sleep(pause_s: float) -> None:
        pauses.append(pause_s)
        if len(pauses) == 2:
            cluster.put(JOBS, a_job())
            cluster.ended = (json.dumps({"type": "BOOKMARK", "object": {}}),)
        if len(pauses) == 3:
            raise KilledError

    informer = Informer(
        api=cluster.connect(), resource=JOBS, observe=shown.append, resync_s=300.0, sleep=sleep
    )
    with pytest.raises(KilledError):
        anyio.run(informer.run)

    assert [each["metadata"]["name"] for each in shown] == ["tune"]
    assert pauses == [1.0, 2.0, 1.0]


def test_a_resource_that_is_not_installed_is_looked_for_later() -> None:
    """Most clusters have no JobSet: no warning each second."""
    pauses: list[float] = []

    async def sleep(pause_s: float) -> None:
        pauses.append(pause_s)
        raise KilledError

    informer = Informer(
        api=FakeCluster().connect(),
        resource=JOB_SETS,
        observe=lambda _job: None,
        resync_s=300.0,
        sleep=sleep,
    )
    with pytest.raises(KilledError):
        anyio.run(informer.run)

    assert pauses == [300.0]


def test_pauses_are_doubled_up_to_a_bound() -> None:
    """However often something failed."""
    pauses = [get_pause_s(failures) for failures in (0, 1, 3, 10_000)]

    assert pauses == [1.0, 2.0, 8.0, MAX_PAUSE_S]


@pytest.mark.parametrize(
    "error", [KubeError(500, "not now"), KeyError("podSets")], ids=["an outage", "a strange object"]
)
def test_what_fails_is_looked_at_again(error: Exception) -> None:
    """Of questions none has failed."""
    key = ObjectKey(resource=JOBS, namespace="ml", name="tune")
    seen: list[int] = []

    async def reconcile(_key: ObjectKey, unanswered: int) -> None:
        seen.append(unanswered)
        if len(seen) < 3:
            raise error

    async def main() -> None:
        queue = WorkQueue()
        for _ in range(3):
            await queue.run_one(key, reconcile)

    anyio.run(main)

    assert seen == [0, 0, 0]


def test_failed_questions_are_counted_by_themselves() -> None:
    """An outage of the API between them neither counts nor forgives; an answer begins anew."""
    key = ObjectKey(resource=JOBS, namespace="ml", name="tune")
    errors = iter([AskError("away"), KubeError(500, "not now"), AskError("away"), None, None])
    seen: list[int] = []

    async def reconcile(_key: ObjectKey, unanswered: int) -> None:
        seen.append(unanswered)
        error = next(errors)
        if error is not None:
            raise error

    async def main() -> None:
        hours = itertools.count(step=3600.0)
        queue = WorkQueue(lambda: next(hours))
        for _ in range(5):
            await queue.run_one(key, reconcile)

    anyio.run(main)

    assert seen == [0, 1, 1, 2, 0]


def test_what_is_added_twice_is_looked_at_once() -> None:
    """A job that changes often is judged as it is then."""
    key = ObjectKey(resource=JOBS, namespace="ml", name="tune")
    later = ObjectKey(resource=JOBS, namespace="ml", name="later")
    seen: list[str] = []

    async def reconcile(each: ObjectKey, _failures: int) -> None:
        seen.append(each.name)

    async def main() -> None:
        queue = WorkQueue()
        queue.add(later, after_s=60.0)
        queue.add(key)
        queue.add(key)
        async with anyio.create_task_group() as group:
            group.start_soon(queue.run, reconcile)
            for _ in range(5):
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()

    anyio.run(main)

    assert seen == ["tune"]
