"""Gates of suspended jobs: what is released, resized and kept, and that a death changes nothing."""

import pytest

from service.kueue.errors import AskError, KubeError
from service.kueue.gates import MAX_ATTEMPTS
from service.kueue.resources import JOBS
from service.usecases.hooks.decision import Mode
from tests.unit.kueue.clusters import FakeCluster, Json, KilledError, Reaper
from tests.unit.kueue.fakes import FakeHeadroom, Replica, a_job, says

GATED_BY = "kueue.x-k8s.io/admission-gated-by"


def read_gates(job: Json) -> str | None:
    """Return the gates of a job, ``None`` where it is released."""
    gates: str | None = job["metadata"]["annotations"].get(GATED_BY)
    return gates


def count_gpus(job: Json) -> str:
    """Return the GPUs that a job asks for."""
    [container] = job["spec"]["template"]["spec"]["containers"]
    return str(container["resources"]["limits"]["nvidia.com/gpu"])


def decide(
    response: Json | None = None, *, status: int = 200, failures: int = 0, **options: object
) -> tuple[Json, list[tuple[str, str, str]]]:
    """Let a replica decide about a job; return the job, and the events about it."""
    cluster = FakeCluster()
    headroom = FakeHeadroom(response=response or says("fits"), status=status)
    key = cluster.put(JOBS, a_job())
    Replica(cluster=cluster, headroom=headroom, **options).reconcile(key, failures)  # type: ignore[arg-type]  # fields of a replica
    events = [(each["type"], each["reason"], each["note"]) for each in cluster.list_events()]
    return cluster.get(key), events


def test_what_fits_is_released() -> None:
    """Its GPUs stay as they are, and its line stays with it."""
    job, events = decide(says("fits"))

    assert (read_gates(job), count_gpus(job)) == (None, "1")
    assert job["metadata"]["annotations"]["headroom.dev/decision"] == "headroom: fits"
    assert events == [("Normal", "HeadroomReleased", "headroom: fits")]


def test_what_needs_more_gpus_gets_them_and_is_released() -> None:
    """In one patch of the version that was judged: both are stored, or neither."""
    cluster, headroom = FakeCluster(), FakeHeadroom(response=says("does_not_fit", gpus=2))
    key = cluster.put(JOBS, a_job())
    version = cluster.get(key)["metadata"]["resourceVersion"]

    Replica(cluster=cluster, headroom=headroom).reconcile(key)

    job = cluster.get(key)
    assert (read_gates(job), count_gpus(job)) == (None, "2")
    [(_, _, operations)] = cluster.list_writes("/jobs/")
    assert operations[0]["value"] == version
    assert headroom.asked[0][0] == "/v1/hooks/kueue/change"
    assert [each["reason"] for each in cluster.list_events()] == ["HeadroomResized"]


@pytest.mark.parametrize(
    ("response", "options", "gates", "event"),
    [
        (says("does_not_fit"), {}, "headroom.dev/fit", "HeadroomGated"),
        (says("does_not_fit"), {"mode": Mode.WARN}, None, "HeadroomReleased"),
        (says("unknown"), {}, None, "HeadroomReleased"),
        (says("unknown"), {"fails_closed": True}, "headroom.dev/fit", "HeadroomGated"),
        (says("tight"), {}, None, "HeadroomReleased"),
    ],
    ids=["does not fit", "only warned of", "unknown", "unknown, closed", "tight"],
)
def test_what_is_not_sure_is_told(
    response: Json, options: Json, gates: str | None, event: str
) -> None:
    """A warning says why it waits, or what it is released in spite of."""
    job, events = decide(response, **options)

    assert read_gates(job) == gates
    assert [(kind, reason) for kind, reason, _ in events] == [("Warning", event)]


def test_a_job_without_gpus_is_released() -> None:
    """The hook says nothing about it."""
    job, events = decide(says("none"))

    assert read_gates(job) is None
    assert events[0][2] == "headroom: the job asks for no GPU, and is released"


def test_gates_of_others_stay() -> None:
    """Only our name is taken away."""
    cluster = FakeCluster()
    key = cluster.put(JOBS, a_job("a.example/one, headroom.dev/fit,b.example/two"))

    Replica(cluster=cluster, headroom=FakeHeadroom()).reconcile(key)

    assert read_gates(cluster.get(key)) == "a.example/one,b.example/two"


@pytest.mark.parametrize(
    "job", [a_job("a.example/one"), a_job(suspend=False)], ids=["another's", "running"]
)
def test_what_does_not_wait_for_us_is_left_alone(job: Json) -> None:
    """Nobody is asked, and nothing is written."""
    cluster, headroom = FakeCluster(), FakeHeadroom()
    key = cluster.put(JOBS, job)

    Replica(cluster=cluster, headroom=headroom).reconcile(key)

    assert (headroom.asked, cluster.requests) == ([], [])


def test_a_server_that_is_away_is_waited_for() -> None:
    """A restart of it takes seconds: the job stays, and is looked at again."""
    with pytest.raises(AskError, match="answers 503: not today"):
        decide(status=503)


@pytest.mark.parametrize(("fails_closed", "gates"), [(False, None), (True, "headroom.dev/fit")])
def test_a_server_that_stays_away_holds_up_nobody(*, fails_closed: bool, gates: str | None) -> None:
    """Unless the operator wants that."""
    job, [(kind, _, note)] = decide(
        status=503, failures=MAX_ATTEMPTS - 1, fails_closed=fails_closed
    )

    assert read_gates(job) == gates
    assert (kind, note) == (
        "Warning",
        "headroom cannot say: http://headroom answers 503: not today",
    )


def test_a_job_that_cannot_be_changed_stays_gated() -> None:
    """Clusters before Kubernetes 1.36 take no other resources of a suspended Job."""
    cluster = FakeCluster(refusals=[("PATCH", "/jobs/", 422)])
    key = cluster.put(JOBS, a_job())

    Replica(
        cluster=cluster, headroom=FakeHeadroom(response=says("does_not_fit", gpus=2))
    ).reconcile(key)

    assert read_gates(cluster.get(key)) == "headroom.dev/fit"
    [event] = cluster.list_events()
    assert "its GPUs cannot be changed: 422: refused by a test" in event["note"]


def test_a_job_that_changed_meanwhile_is_judged_anew() -> None:
    """Its user patched it while it was asked about: the old answer is not stored."""
    cluster, headroom = FakeCluster(), FakeHeadroom(response=says("does_not_fit", gpus=2))
    key = cluster.put(JOBS, a_job())

    def change(method: str, _path: str) -> None:
        if method == "PATCH" and not headroom.asked[1:]:
            cluster.put(JOBS, cluster.get(key))

    cluster.before = change
    replica = Replica(cluster=cluster, headroom=headroom)
    with pytest.raises(KubeError, match="409"):
        replica.reconcile(key)
    replica.reconcile(key)

    assert len(headroom.asked) == 2
    assert (read_gates(cluster.get(key)), count_gpus(cluster.get(key))) == (None, "2")
    assert len(cluster.list_writes("/jobs/")) == 1


def test_a_gate_that_somebody_takes_away_meanwhile_is_theirs() -> None:
    """The API refuses the patch as it refuses a wrong one: nothing untrue is told."""
    cluster, headroom = FakeCluster(), FakeHeadroom(response=says("does_not_fit", gpus=2))
    key = cluster.put(JOBS, a_job())
    released = cluster.get(key)

    def release(method: str, _path: str) -> None:
        if method == "PATCH":
            metadata = {**released["metadata"], "annotations": {}}
            cluster.put(JOBS, {**released, "metadata": metadata})

    cluster.before = release
    replica = Replica(cluster=cluster, headroom=headroom)
    with pytest.raises(KubeError, match="422"):
        replica.reconcile(key)
    replica.reconcile(key)

    assert (count_gpus(cluster.get(key)), cluster.list_events()) == ("1", [])


def test_a_job_that_is_deleted_meanwhile_is_nobodys() -> None:
    """No event is left behind."""
    cluster = FakeCluster()
    key = cluster.put(JOBS, a_job())

    def delete(method: str, _path: str) -> None:
        if method == "PATCH":
            cluster.objects.clear()

    cluster.before = delete
    Replica(cluster=cluster, headroom=FakeHeadroom()).reconcile(key)

    assert cluster.objects == {}


def test_what_stays_gated_is_told_once() -> None:
    """By this process, by the next one, and again only when the line changes."""
    cluster = FakeCluster()
    headroom = FakeHeadroom(response=says("does_not_fit"))
    key = cluster.put(JOBS, a_job())
    first = Replica(cluster=cluster, headroom=headroom)
    for replica in (first, first, Replica(cluster=cluster, headroom=headroom, name="b")):
        replica.reconcile(key)

    assert len(cluster.list_events()) == 1
    counted = first.metrics.registry.get_sample_value(
        "headroom_kueue_decisions_total",
        {"door": "gate", "verdict": "does_not_fit", "action": "keep"},
    )
    assert counted == 1


@pytest.mark.parametrize("is_late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(1, 6))
def test_a_death_at_any_request_ends_right(at: int, *, is_late: bool) -> None:
    """The next process finishes it: resized once, released once."""
    reaper = Reaper(at=at, is_late=is_late)
    cluster = FakeCluster(reaper=reaper)
    headroom = FakeHeadroom(response=says("does_not_fit", gpus=2), reaper=reaper)
    key = cluster.put(JOBS, a_job())
    try:
        Replica(cluster=cluster, headroom=headroom).reconcile(key)
        died = False
    except KilledError:
        died = True
    reaper.revive()
    job = cluster.get(key)

    assert died == (at <= 4)
    assert (read_gates(job) is None) == (count_gpus(job) == "2")
    Replica(cluster=cluster, headroom=headroom, name="b").reconcile(key)
    job = cluster.get(key)
    assert (read_gates(job), count_gpus(job)) == (None, "2")
    assert job["metadata"]["annotations"]["headroom.dev/decision"] == "headroom: does_not_fit"
    assert len(cluster.list_writes("/jobs/")) == 1
    assert len(cluster.list_events()) <= 1


def test_a_job_whose_number_is_not_found_yet_is_looked_at_again() -> None:
    """Soon, and not at the next list; in the end it stays gated, as what does not fit."""
    looking = {**says("does_not_fit"), "is_transient": True}

    with pytest.raises(AskError, match="may say more at another try: headroom: does_not_fit"):
        decide(looking, failures=MAX_ATTEMPTS - 2)
    job, events = decide(looking, failures=MAX_ATTEMPTS - 1)

    assert read_gates(job) == "headroom.dev/fit"
    assert events == [("Warning", "HeadroomGated", "headroom: does_not_fit")]
