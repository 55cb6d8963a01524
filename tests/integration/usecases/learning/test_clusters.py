"""What a cluster's own measurements teach: of its GPUs first, and of all such GPUs as before."""

from collections.abc import Sequence
from uuid import UUID

import pytest

from service.catalog.gpus import resolve_gpu
from service.db.records.stored import StoredCalibration
from service.estimator.cache import PlanCache
from service.estimator.values.result import Estimate
from service.jobs.contract import MeasureRequest, ProbeDevice, ProbeResult
from service.usecases.jobs.withdrawals import withdraw
from service.usecases.learning import learning
from service.usecases.learning.calibrations import list_changed_since
from service.usecases.learning.corrections import CorrectionCache
from service.usecases.questions.fit import FitQuestion, judge_fit
from tests.integration.usecases.learning.builders import (
    ARCHITECTURE,
    Sessions,
    a_gpu_result,
    a_request,
    list_current,
    measure,
)

GPU = "H200-SXM5-141GB"
MIB = 2**20


def a_question(sequence_length: int = 64, *, optimizer: str = "adamw") -> MeasureRequest:
    """Return a question on a GPU."""
    return a_request(device=ProbeDevice.CUDA, sequence_length=sequence_length, optimizer=optimizer)


def a_run(
    request: MeasureRequest, cluster: str = "", *, driver: str = "570.1", beside: int = 0
) -> ProbeResult:
    """Return a run in a cluster that had ``beside`` more bytes beside its allocator."""
    result = a_gpu_result(request, driver=driver)
    named = {"cluster": cluster} if cluster else {}
    peaks = result.peaks
    assert peaks.device_bytes is not None
    return ProbeResult(
        environment={**result.environment, **named},
        peaks=type(peaks)(
            allocated_bytes=peaks.allocated_bytes,
            reserved_bytes=peaks.reserved_bytes,
            device_bytes=peaks.device_bytes + beside,
        ),
        instants=result.instants,
        probes=result.probes,
        extrapolated=result.extrapolated,
        transferable=result.transferable,
        step_time_s=result.step_time_s,
    )


def answer(
    sessions: Sessions,
    cluster: str = "",
    *,
    request: MeasureRequest | None = None,
    of: Sequence[StoredCalibration] | None = None,
) -> Estimate:
    """Return the answer now, about a cluster; by calibrations ``of`` a choice of all."""
    stored = list_changed_since(sessions, None) if of is None else tuple(of)
    cache = CorrectionCache(read_changed=lambda _since: stored)
    cache.refresh()
    asked = request or a_question()
    question = FitQuestion(
        architecture=ARCHITECTURE,
        workload=asked.task.workload,
        layout=asked.layout,
        device=resolve_gpu(GPU).to_device(),
        cluster=cluster,
    )
    return judge_fit(question, plans=PlanCache(), find_corrections=cache).estimate


def get_context(estimate: Estimate) -> int:
    """Return the bytes beside the allocator."""
    return estimate.device_bytes - estimate.reserved_bytes


def test_each_clusters_answer_rests_on_its_own(sessions: Sessions) -> None:
    """Two clusters with the same GPU, another driver and another context: neither has the
    other's, and a question that names none has that of the driver seen last.
    """
    request = a_question()
    measure(sessions, request, a_run(request, "a", driver="550.1", beside=100 * MIB))
    measure(sessions, request, a_run(request, "b", driver="570.1", beside=900 * MIB))

    of_a, of_b, of_any = (answer(sessions, name) for name in ("a", "b", ""))

    assert get_context(of_b) - get_context(of_a) == 800 * MIB
    assert get_context(of_any) == get_context(of_b)
    assert of_a.cluster_quantities == of_b.cluster_quantities
    assert {"allocated", "reserved", "device", "step_time"} <= set(of_a.cluster_quantities)
    assert of_any.cluster_quantities == ()


def test_the_same_environment_keeps_two_clusters_apart(sessions: Sessions) -> None:
    """Where GPU, driver and releases are the same, what else differs is a cluster's own: what
    contradicts the first, and so teaches nothing of all such GPUs, is what its cluster has.
    """
    request = a_question()
    measure(sessions, request, a_run(request, "a", beside=100 * MIB))
    second = measure(sessions, request, a_run(request, "b", beside=900 * MIB))

    contexts = [get_context(answer(sessions, name)) for name in ("a", "b", "")]

    assert contexts[1] - contexts[0] == 800 * MIB
    assert contexts[2] == contexts[0]
    assert second.result is not None
    assert second.result.calibration_id is not None


def test_a_cluster_without_data_is_like_any(sessions: Sessions) -> None:
    """Nothing was measured there: its answer is that of such GPUs anywhere."""
    request = a_question()
    measure(sessions, request, a_run(request, "a", beside=100 * MIB))

    assert answer(sessions, "new") == answer(sessions)


def test_what_a_cluster_lacks_is_as_anywhere(sessions: Sessions) -> None:
    """Another optimizer was measured elsewhere alone: its bytes are known by that, and the context
    by the cluster's own processes.
    """
    for optimizer in ("adamw", "adafactor"):
        request = a_question(optimizer=optimizer)
        measure(sessions, request, a_run(request, "a", driver="550.1", beside=900 * MIB))
    other = a_question(optimizer="sgd")
    measure(sessions, other, a_run(other, "b", driver="570.1"))

    of_a, of_b = answer(sessions, "a", request=other), answer(sessions, "b", request=other)

    assert of_a.allocated_bytes == of_b.allocated_bytes
    assert of_a.bases["allocated"] == "measured"
    assert get_context(of_a) > get_context(of_b) + 500 * MIB
    assert "device" in of_a.cluster_quantities
    assert "allocated" not in of_a.cluster_quantities


def test_a_withdrawal_takes_it_from_the_cluster_too(sessions: Sessions) -> None:
    """What it taught is gone there, and another run of the cluster that contradicts it counts."""
    request = a_question()
    wrong = measure(sessions, request, a_run(request, "a", beside=100 * MIB))
    measure(sessions, request, a_run(request, "a", beside=900 * MIB))
    before = answer(sessions, "a")

    withdraw(sessions, wrong.id, by="ann")

    after = answer(sessions, "a")
    assert get_context(after) - get_context(before) == 800 * MIB
    assert after.cluster_quantities == before.cluster_quantities


def test_the_last_withdrawal_leaves_the_cluster_nothing(sessions: Sessions) -> None:
    """Its answer is then that of such GPUs anywhere."""
    request = a_question()
    measure(sessions, request, a_run(request))
    only = measure(sessions, request, a_run(request, "a", beside=900 * MIB))

    withdraw(sessions, only.id, by="ann")

    assert answer(sessions, "a") == answer(sessions)
    assert answer(sessions, "a").cluster_quantities == ()


def test_other_clusters_do_not_crowd_it_out(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster learns from its own newest runs, however many others measured since."""
    monkeypatch.setattr(learning, "MAX_EVIDENCE", 3)
    request = a_question()
    first = measure(sessions, request, a_run(request, "a", beside=100 * MIB))
    for number in range(3):
        measure(sessions, request, a_run(request, "b", beside=(900 + number) * MIB))
    second = measure(sessions, request, a_run(request, "a", beside=100 * MIB))

    assert _get_evidence(list_current(sessions), "a") == {first.id, second.id}


def _get_evidence(stored: dict[tuple[str, str], StoredCalibration], cluster: str) -> set[UUID]:
    """Return what the allocated bytes of a cluster rest on."""
    [calibration] = [
        item
        for (_, quantity), item in stored.items()
        if quantity == "allocated" and item.scope["gpu"] == f"{GPU}@{cluster}"
    ]
    return set(calibration.evidence)


def test_a_question_that_names_none_has_the_answer_of_before(sessions: Sessions) -> None:
    """What is learnt of clusters' GPUs alone changes nothing of it: all of it is as if nothing else
    were stored, which rests on the runs of every cluster.
    """
    runs = ((64, "adamw", "a", 0), (128, "adamw", "b", 100 * MIB), (64, "sgd", "b", 300 * MIB))
    for length, optimizer, cluster, beside in runs:
        request = a_question(length, optimizer=optimizer)
        measure(sessions, request, a_run(request, cluster, beside=beside))
    stored = list_current(sessions).values()
    of_any = [item for item in stored if "@" not in str(item.scope["gpu"])]

    for length, optimizer in ((64, "adamw"), (256, "adamw"), (64, "sgd"), (64, "adafactor")):
        request = a_question(length, optimizer=optimizer)
        assert answer(sessions, request=request) == answer(sessions, request=request, of=of_any)

    assert len(of_any) < len(stored)
    assert {len(item.evidence) for item in of_any if item.quantity == "allocated"} == {1, 2}
