"""Measurements that somebody handed in: who approves them, what they teach, and how they go."""

import json
from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from sqlalchemy.orm import Session, sessionmaker

from service.base.errors import InvalidRequestError, NotFoundError
from service.catalog.gpus import resolve_gpu
from service.estimator.cache import PlanCache
from service.estimator.values.result import Estimate
from service.jobs.states import ClaimState
from service.usecases.imports import claims, stored_imports
from service.usecases.imports.claims import Claimant
from service.usecases.imports.imports import ImportReport
from service.usecases.learning.calibrations import list_changed_since
from service.usecases.learning.corrections import CorrectionCache
from service.usecases.questions.fit import FitQuestion, judge_fit
from tests.integration.usecases.test_imports import GPU, RELEASES, question, read

Sessions = sessionmaker[Session]
NODES = Claimant(name="nodes", key="k1")
OPERATOR = Claimant(name="ann", key="k2", trusted=True)


def counted(peak_bytes: int, salt: int = 0) -> bytes:
    """Return what PyTorch's allocator counted in a run; ``salt`` makes it another file."""
    return json.dumps(
        {
            "allocated_bytes.all.peak": peak_bytes,
            "allocated_bytes.all.current": salt,
            "reserved_bytes.all.peak": peak_bytes + 2**28,
        }
    ).encode()


def estimate(sessions: Sessions, cluster: str = "") -> Estimate:
    """Return the answer to the question now, about a cluster."""
    cache = CorrectionCache(read_changed=lambda since: list_changed_since(sessions, since))
    cache.refresh()
    asked = question()
    fit = FitQuestion(
        architecture=asked.architecture,
        workload=asked.workload,
        layout=asked.layout,
        device=resolve_gpu(GPU).to_device(),
        cluster=cluster,
    )
    return judge_fit(fit, plans=PlanCache(), find_corrections=cache.find).estimate


def hand_in(
    sessions: Sessions, peak_bytes: int, claimant: Claimant, salt: int = 0, *, cluster: str = ""
) -> ImportReport:
    """Import one run, of a cluster."""
    asked = replace(question(), cluster=cluster)
    report = read(counted(peak_bytes, salt), asked, environment=RELEASES)
    return stored_imports.store(sessions, report, claimant)


def get_id(report: ImportReport) -> UUID:
    """Return the id of the single measurement of an import."""
    [item] = report.items
    assert item.id is not None
    return item.id


def get_state(report: ImportReport) -> ClaimState | None:
    """Return the state of the single measurement of an import."""
    [item] = report.items
    return None if item.claim is None else item.claim.state


def test_three_fakes_change_no_answer(sessions: Sessions) -> None:
    """A key that reports far less than jobs need turns no verdict: its files wait, held apart."""
    before = estimate(sessions)

    reports = [
        hand_in(sessions, round(before.allocated_bytes * share), NODES, salt)
        for salt, share in enumerate((0.7, 0.701, 0.702))
    ]

    assert {get_state(report) for report in reports} == {ClaimState.HELD}
    assert estimate(sessions) == before
    assert claims.approve(sessions, source="nodes", job_ids=(), by="ann").ids == ()
    assert estimate(sessions) == before


def test_what_is_near_waits_and_then_teaches(sessions: Sessions) -> None:
    """Approved with its source, it corrects the answer, which is never called measured."""
    before = estimate(sessions)
    peak_bytes = 2 * before.allocated_interval.high - before.allocated_bytes
    report = hand_in(sessions, peak_bytes, NODES)
    assert get_state(report) is ClaimState.PENDING
    assert estimate(sessions) == before

    decision = claims.approve(sessions, source="nodes", job_ids=(), by="ann")

    after = estimate(sessions)
    assert decision.ids == (get_id(report),)
    assert after.allocated_bytes == peak_bytes
    assert after.basis == "calibrated"
    assert "measured" not in after.bases.values()


def test_what_is_far_is_approved_by_its_id(sessions: Sessions) -> None:
    """An operator who looked at it may say that it is right."""
    before = estimate(sessions)
    report = hand_in(sessions, round(before.allocated_bytes * 0.9), NODES)

    claims.approve(sessions, source=None, job_ids=[get_id(report)], by="ann")

    assert estimate(sessions).allocated_bytes == round(before.allocated_bytes * 0.9)


def test_an_operator_need_not_approve_himself(sessions: Sessions) -> None:
    """What he brings teaches at once, as before there were approvals."""
    before = estimate(sessions)

    report = hand_in(sessions, round(before.allocated_bytes * 0.9), OPERATOR)

    assert get_state(report) is ClaimState.APPROVED
    assert estimate(sessions).allocated_bytes == round(before.allocated_bytes * 0.9)


def test_a_source_is_withdrawn_at_once(sessions: Sessions) -> None:
    """Everything of it goes, approved or not, and what others brought stays."""
    before = estimate(sessions)
    mine = hand_in(sessions, before.allocated_interval.high, NODES)
    waiting = hand_in(sessions, before.allocated_interval.high - 1, NODES, salt=1)
    claims.approve(sessions, source=None, job_ids=[get_id(mine)], by="ann")
    assert estimate(sessions) != before

    decision = claims.withdraw_source(sessions, "nodes", by="ann")

    assert set(decision.ids) == {get_id(mine), get_id(waiting)}
    assert estimate(sessions).allocated_bytes == before.allocated_bytes
    [source] = claims.list_sources(sessions)
    assert (source.source, source.source_key, source.num_withdrawn) == ("nodes", "k1", 2)
    assert (source.num_pending, source.num_held, source.num_approved) == (0, 0, 0)


def test_what_was_withdrawn_is_not_approved(sessions: Sessions) -> None:
    """Its end is final; it may be handed in again."""
    report = hand_in(sessions, estimate(sessions).allocated_interval.high, NODES)
    claims.withdraw_source(sessions, "nodes", by="ann")

    decision = claims.approve(sessions, source=None, job_ids=[get_id(report)], by="ann")

    assert decision.ids == ()
    again = hand_in(sessions, estimate(sessions).allocated_interval.high, NODES)
    assert [item.is_new for item in again.items] == [True]


def test_known_files_keep_their_source(sessions: Sessions) -> None:
    """Handed in again by somebody else, a measurement is still of whoever brought it first."""
    peak_bytes = estimate(sessions).allocated_interval.high
    hand_in(sessions, peak_bytes, NODES)

    [item] = hand_in(sessions, peak_bytes, OPERATOR).items

    assert item.claim is not None
    assert (item.is_new, item.claim.source, item.claim.state) == (False, "nodes", "pending")


def test_a_decision_names_what_it_means(sessions: Sessions) -> None:
    """A source or ids, and ids of measurements that somebody brought."""
    with pytest.raises(InvalidRequestError, match="one of the two"):
        claims.approve(sessions, source=None, job_ids=(), by="ann")
    with pytest.raises(NotFoundError, match="nobody brought"):
        claims.approve(sessions, source=None, job_ids=[uuid4()], by="ann")


def test_a_stranger_claims_no_cluster(sessions: Sessions) -> None:
    """What he says was measured there waits as all else does, and an operator who approves what
    the nodes brought of another cluster approves nothing of it.
    """
    before = estimate(sessions, "lab")
    peak_bytes = 2 * before.allocated_interval.high - before.allocated_bytes
    claimed = hand_in(sessions, peak_bytes, NODES, cluster="lab")
    other = hand_in(sessions, peak_bytes, NODES, salt=1, cluster="edge")
    assert estimate(sessions, "lab") == before

    decision = claims.approve(sessions, source="nodes", job_ids=(), by="ann", cluster="edge")

    assert decision.ids == (get_id(other),)
    assert estimate(sessions, "edge").cluster_quantities == ("allocated", "reserved")
    assert estimate(sessions, "lab").cluster_quantities == ()
    assert {
        (source.cluster, source.num_pending, source.num_approved)
        for source in claims.list_sources(sessions)
    } == {("lab", 1, 0), ("edge", 0, 1)}
    [item] = claimed.items
    assert item.claim is not None
    assert item.claim.cluster == "lab"


def test_one_cluster_of_a_source_is_withdrawn(sessions: Sessions) -> None:
    """What the same nodes brought of another cluster goes on teaching it."""
    before = estimate(sessions)
    peak_bytes = 2 * before.allocated_interval.high - before.allocated_bytes
    for salt, cluster in enumerate(("lab", "edge")):
        hand_in(sessions, peak_bytes, NODES, salt, cluster=cluster)
    claims.approve(sessions, source="nodes", job_ids=(), by="ann")

    decision = claims.withdraw_source(sessions, "nodes", by="ann", cluster="lab")

    assert len(decision.ids) == 1
    assert estimate(sessions, "lab").cluster_quantities == ()
    assert estimate(sessions, "edge").cluster_quantities == ("allocated", "reserved")
    assert estimate(sessions).allocated_bytes == peak_bytes


def test_a_job_is_not_stored_again_for_its_cluster(sessions: Sessions) -> None:
    """Imported before without one, it is known; two clusters whose jobs have the same number and
    the same bytes are two.
    """
    peak_bytes = estimate(sessions).allocated_bytes
    hand_in(sessions, peak_bytes, OPERATOR)

    again = hand_in(sessions, peak_bytes, OPERATOR, cluster="lab")
    of_lab = hand_in(sessions, peak_bytes + 1, OPERATOR, cluster="lab")
    of_edge = hand_in(sessions, peak_bytes + 1, OPERATOR, cluster="edge")

    reports = (again, of_lab, of_edge)
    assert [item.is_new for report in reports for item in report.items] == [False, True, True]
    assert get_id(of_lab) != get_id(of_edge)


def test_ids_are_of_any_cluster(sessions: Sessions) -> None:
    """Who names measurements names no cluster beside them."""
    with pytest.raises(InvalidRequestError, match="leave one out"):
        claims.approve(sessions, source=None, job_ids=[uuid4()], by="ann", cluster="lab")
