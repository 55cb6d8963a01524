"""Questions of pods, by the decisions about what made them."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session, sessionmaker

from service.base.errors import InvalidRequestError, NotFoundError
from service.db.tables.hooks import HookDecisionRow
from service.usecases.hooks.log import DecisionLog
from service.usecases.hooks.pods import Pod, find_pod_question
from tests.integration.usecases.test_hook_decisions import a_decision

Sessions = sessionmaker[Session]
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def decide(sessions: Sessions, name: str, question: str | None, hour: int, **more: object) -> None:
    """Store a decision about an object, made at that hour; a question is one letter."""
    usual: dict[str, object] = {"door": "kubernetes", "verdict": "fits", "action": "allow"}
    decision = a_decision(
        queue="ml",
        job_name=name,
        digest=None if question is None else question * 32,
        question=None if question is None else {"model": question},
        **(usual | more),
    )
    log = DecisionLog(sessions)
    log.add(decision)
    log.flush()
    moment = NOON.replace(hour=hour)
    with sessions.begin() as session:
        session.execute(
            update(HookDecisionRow)
            .where(HookDecisionRow.id == decision.id)
            .values(created_at=moment, last_at=moment)
        )


def find(sessions: Sessions, name: str, namespace: str = "ml") -> object:
    """Return the model of the question of a pod that was seen at noon."""
    pod = Pod(namespace=namespace, name=name, seen_at=NOON)
    return find_pod_question(sessions, pod)["model"]


def test_a_pod_has_the_question_of_what_made_it(sessions: Sessions) -> None:
    """The last before it ran, and of nothing that was refused."""
    decide(sessions, "tune", "a", 9)
    decide(sessions, "tune", "b", 10)
    decide(sessions, "tune", "c", 11, verdict="does_not_fit", action="refuse")
    decide(sessions, "tune", "d", 13)
    decide(sessions, "tune", "f", 11, door="slurm")

    assert find(sessions, "tune-x7x2k") == "b"


def test_a_job_that_kueue_holds_has_the_question_that_was_answered_last(
    sessions: Sessions,
) -> None:
    """Also where it was asked before, and another one in between."""
    decide(sessions, "tune", "a", 9, door="kueue")
    decide(sessions, "tune", "b", 10, door="kueue")
    with sessions.begin() as session:
        asked_again = update(HookDecisionRow).where(HookDecisionRow.digest == "a" * 32)
        session.execute(asked_again.values(last_at=NOON.replace(hour=11), num_times=2))

    assert find(sessions, "tune-x7x2k") == "a"


def test_a_pod_of_nobody_has_none(sessions: Sessions) -> None:
    """Of another namespace, another name, or an object whose question was not read."""
    decide(sessions, "tune", "a", 9)
    decide(sessions, "mute", None, 9, verdict="unknown")

    with pytest.raises(NotFoundError, match="was not asked about what made pod dev/tune-x7x2k"):
        find(sessions, "tune-x7x2k", "dev")
    with pytest.raises(NotFoundError, match="was not asked about"):
        find(sessions, "tune-big-x7x2k")
    with pytest.raises(NotFoundError, match="could not read a question of"):
        find(sessions, "mute-x7x2k")


def test_a_pod_of_one_of_two_has_the_question_of_both_or_none(sessions: Sessions) -> None:
    """A Job ``tune-0`` makes such pods, and an indexed one ``tune``."""
    decide(sessions, "tune-0", "a", 9)
    decide(sessions, "tune", "b", 9)
    decide(sessions, "tune", "a", 10)
    before = find(sessions, "tune-0-x7x2k")
    decide(sessions, "tune", "b", 11)

    assert before == "a"
    with pytest.raises(
        InvalidRequestError, match="may be of tune, tune-0, about which 2 questions"
    ):
        find(sessions, "tune-0-x7x2k")


def test_objects_of_one_generated_name_have_one_question_or_none(sessions: Sessions) -> None:
    """Two may wait at once, and nothing tells whose a pod is."""
    decide(sessions, "tune-", "a", 9)
    decide(sessions, "tune-", "a", 10)
    before = find(sessions, "tune-x7x2k-b2b2b")
    decide(sessions, "tune-", "b", 11)

    assert before == "a"
    with pytest.raises(InvalidRequestError, match="may be of tune-, about which 2 questions"):
        find(sessions, "tune-x7x2k-b2b2b")


def test_a_question_that_was_stored_anew_is_found(sessions: Sessions) -> None:
    """A pod that is seen in the moment of its decision has it."""
    decide(sessions, "tune", "a", 12)

    assert find(sessions, "tune") == "a"
    with pytest.raises(NotFoundError):
        find_pod_question(
            sessions, Pod(namespace="ml", name="tune", seen_at=NOON - timedelta(seconds=1))
        )
