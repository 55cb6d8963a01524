"""AdmissionChecks: states of Workloads, the nodes that they get, and deaths in between."""

import pytest

from service.kueue.checks import Unfit, get_retry_s
from service.kueue.errors import KubeError
from service.kueue.gates import MAX_ATTEMPTS
from service.kueue.resources import CHECKS
from tests.unit.kueue.clusters import FakeCluster, Json, KilledError, Reaper
from tests.unit.kueue.fakes import (
    FakeHeadroom,
    Replica,
    a_check,
    a_template,
    a_workload,
    put_workload,
    says,
)

SMALL, LARGE = "NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB"


def either_gpu() -> Json:
    """Return pods that may get one of two products, the dearer one first."""
    expression = {
        "key": "nvidia.com/gpu.product",
        "operator": "In",
        "values": ["NVIDIA-H100-80GB-HBM3", LARGE],
    }
    terms = [{"matchExpressions": [expression]}]
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return a_template(affinity={"nodeAffinity": affinity})


def judge(
    response: Json,
    workload: Json | None = None,
    *,
    product: str | None = None,
    failures: int = 0,
    status: int = 200,
    **options: object,
) -> tuple[Json, FakeCluster, FakeHeadroom]:
    """Let a replica judge a Workload; return the state of our check, and both servers."""
    cluster, headroom = FakeCluster(), FakeHeadroom(response=response, status=status)
    key = put_workload(cluster, workload or a_workload(), product)
    Replica(cluster=cluster, headroom=headroom, **options).reconcile(key, failures)  # type: ignore[arg-type]  # fields of a replica
    [ours, other] = cluster.get(key)["status"]["admissionChecks"]
    assert other["state"] == "Pending"
    return ours, cluster, headroom


def test_a_check_of_ours_is_active() -> None:
    """Once, until its spec changes; another controller's is left alone."""
    cluster = FakeCluster()
    ours = cluster.put(CHECKS, a_check())
    other = cluster.put(CHECKS, a_check("a.example/b", "other"))
    replica = Replica(cluster=cluster, headroom=FakeHeadroom())
    for key in (ours, ours, other):
        replica.reconcile(key)

    [condition] = cluster.get(ours)["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Active", "True")
    assert condition["observedGeneration"] == 1
    assert len(cluster.requests) == 1


def test_what_fits_is_ready() -> None:
    """With the line as its message, and an event on the job, where its user looks."""
    state, cluster, headroom = judge(says("fits"), product=LARGE)

    assert (state["state"], state["message"]) == ("Ready", "headroom: fits")
    assert {"podSetUpdates", "requeueAfterSeconds"}.isdisjoint(state)
    [event] = cluster.list_events()
    assert (event["regarding"]["kind"], event["reason"]) == ("Job", "HeadroomCheckReady")
    [(path, body)] = headroom.asked
    assert (path, body["is_placed"]) == ("/v1/hooks/kueue/refuse", True)
    [shown] = body["objects"]
    assert shown["metadata"]["name"] == "tune"
    assert shown["metadata"]["annotations"] == {"headroom.dev/question": "gpt2"}
    [job] = shown["spec"]["replicatedJobs"]
    assert job["replicas"] == 2
    selector = job["template"]["spec"]["template"]["spec"]["nodeSelector"]
    assert selector == {"nvidia.com/gpu.product": LARGE}


def test_pods_without_an_index_are_judged_one_by_one() -> None:
    """As the hook does that is shown their Job."""
    cluster, headroom = FakeCluster(), FakeHeadroom()
    key = put_workload(cluster, a_workload(), completion_mode="NonIndexed")

    Replica(cluster=cluster, headroom=headroom).reconcile(key)

    [(_, body)] = headroom.asked
    [job] = body["objects"][0]["spec"]["replicatedJobs"]
    assert job["replicas"] == 1


def test_all_pod_sets_with_gpus_are_one_question() -> None:
    """The hook is shown each with its own number of GPUs, and none without any."""
    workload = a_workload(a_template(gpus=8))
    workload["spec"]["podSets"] += [
        {"name": "judge", "count": 1, "template": a_template(gpus=1)},
        {"name": "driver", "count": 1, "template": a_template(gpus=0)},
    ]

    _, _, headroom = judge(says("fits"), workload, product=LARGE)

    shown = [body["objects"][0]["spec"]["replicatedJobs"] for _, body in headroom.asked]
    assert [[(job["name"], job["replicas"]) for job in jobs] for jobs in shown] == [
        [("main", 2), ("judge", 1)],
        [("judge", 1), ("main", 2)],
    ]


@pytest.mark.parametrize(
    ("unfit", "expected", "delay_s"),
    [(Unfit.RETRY, "Retry", 240), (Unfit.REJECT, "Rejected", None), (Unfit.WARN, "Ready", None)],
)
def test_what_does_not_fit_goes_where_the_operator_says(
    unfit: Unfit, expected: str, delay_s: int | None
) -> None:
    """Back to its queue by default: Kueue deactivates a Workload that is rejected."""
    state, cluster, headroom = judge(says("does_not_fit"), a_workload(retries=2), unfit=unfit)

    assert (state["state"], state.get("requeueAfterSeconds")) == (expected, delay_s)
    mode = "warn" if unfit is Unfit.WARN else "refuse"
    assert [path for path, _ in headroom.asked] == [f"/v1/hooks/kueue/{mode}"]
    assert cluster.list_events()[0]["type"] == "Warning"


def test_the_pause_between_two_tries_is_bounded() -> None:
    """A minute, doubled up to an hour."""
    pauses = [get_retry_s(retries) for retries in (0, 1, 5, 6, 1000)]

    assert pauses == [60, 120, 1920, 3600, 3600]


@pytest.mark.parametrize(("fails_closed", "expected"), [(False, "Ready"), (True, "Retry")])
def test_what_cannot_be_said_holds_up_nobody(*, fails_closed: bool, expected: str) -> None:
    """Unless the operator wants that: an unknown question, and a server that stays away."""
    unknown, _, _ = judge(says("unknown"), fails_closed=fails_closed)
    away, _, _ = judge(
        says("fits"), status=500, failures=MAX_ATTEMPTS - 1, fails_closed=fails_closed
    )

    assert (unknown["state"], away["state"]) == (expected, expected)
    assert away["message"].startswith("headroom cannot say: http://headroom answers 500")


def test_pods_without_gpus_are_ready() -> None:
    """Nobody is asked."""
    state, _, headroom = judge(says("does_not_fit"), a_workload(a_template(gpus=0)))

    assert (state["state"], state["message"]) == ("Ready", "headroom: no pod asks for a GPU")
    assert headroom.asked == []


def test_pods_that_may_get_several_gpus_get_the_cheapest_that_holds_them() -> None:
    """By a node selector, the one thing that a check may add."""
    dear: Json = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    cluster, headroom = FakeCluster(), FakeHeadroom(by_product={LARGE: says("does_not_fit")})
    key = put_workload(cluster, a_workload(either_gpu()))
    Replica(cluster=cluster, headroom=headroom).reconcile(key)
    state = cluster.get(key)["status"]["admissionChecks"][0]

    assert state["state"] == "Ready"
    assert state["podSetUpdates"] == [{"name": "main", "nodeSelector": dear}]
    assert [len(body["objects"]) for _, body in headroom.asked] == [2]


def test_pods_that_no_gpu_holds_are_pinned_to_none() -> None:
    """Of several, too."""
    state, _, headroom = judge(says("does_not_fit"), a_workload(either_gpu()))

    assert (state["state"], "podSetUpdates" in state) == ("Retry", False)
    assert [len(body["objects"]) for _, body in headroom.asked] == [2]


@pytest.mark.parametrize("product", [LARGE, SMALL])
def test_a_flavor_with_a_product_needs_no_pin(product: str) -> None:
    """Kueue refuses a check that sets what its flavor sets."""
    state, _, headroom = judge(says("fits"), a_workload(either_gpu()), product=product, pins=True)

    assert "podSetUpdates" not in state
    assert len(headroom.asked) == 1


@pytest.mark.parametrize("pins", [False, True])
def test_the_gpu_of_a_question_is_pinned_where_the_operator_says_so(*, pins: bool) -> None:
    """Not by default: nodes without the label would never get the job."""
    state, _, _ = judge(says("fits"), pins=pins)

    updates = [{"name": "main", "nodeSelector": {"nvidia.com/gpu.product": LARGE}}]
    assert state.get("podSetUpdates") == (updates if pins else None)


@pytest.mark.parametrize(
    "change",
    [
        {"conditions": [{"type": "QuotaReserved", "status": "False"}]},
        {
            "conditions": [
                {"type": "QuotaReserved", "status": "True"},
                {"type": "Finished", "status": "True"},
            ]
        },
        {"admissionChecks": [{"name": "headroom", "state": "Ready"}]},
        {"admissionChecks": [{"name": "provisioned", "state": "Pending"}]},
    ],
    ids=["without quota", "finished", "decided", "another's check"],
)
def test_a_workload_that_does_not_wait_for_us_is_left_alone(change: Json) -> None:
    """Nobody is asked, and nothing is written."""
    cluster, headroom = FakeCluster(), FakeHeadroom()
    workload = a_workload()
    key = put_workload(cluster, {**workload, "status": {**workload["status"], **change}})

    Replica(cluster=cluster, headroom=headroom).reconcile(key)

    assert (headroom.asked, cluster.requests) == ([], [])


def test_a_workload_that_changed_meanwhile_is_judged_anew() -> None:
    """It was evicted while it was asked about: the old state is not stored."""
    cluster, headroom = FakeCluster(), FakeHeadroom()
    key = put_workload(cluster, a_workload())

    def evict(method: str, _path: str) -> None:
        if method == "PATCH":
            cluster.put(key.resource, a_workload())

    cluster.before = evict
    with pytest.raises(KubeError, match="409"):
        Replica(cluster=cluster, headroom=headroom).reconcile(key)

    assert cluster.get(key)["status"]["admissionChecks"][0]["state"] == "Pending"


@pytest.mark.parametrize("is_late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(1, 9))
def test_a_death_at_any_request_ends_right(at: int, *, is_late: bool) -> None:
    """The next process finishes it: one state, told at most once."""
    reaper = Reaper(at=at, is_late=is_late)
    cluster = FakeCluster(reaper=reaper)
    headroom = FakeHeadroom(reaper=reaper)
    key = put_workload(cluster, a_workload(), LARGE)
    try:
        Replica(cluster=cluster, headroom=headroom).reconcile(key)
        died = False
    except KilledError:
        died = True
    reaper.revive()

    assert died
    Replica(cluster=cluster, headroom=headroom, name="b").reconcile(key)
    assert cluster.get(key)["status"]["admissionChecks"][0]["state"] == "Ready"
    assert len(cluster.list_writes("/status")) == 1
    assert len(cluster.list_events()) <= 1
