"""Decisions that are one row, and those that are not."""

from dataclasses import replace
from uuid import uuid4

import pytest

from service.db.records.hooks import HookDecision
from service.usecases.hooks.repeats import RecentDecisions

FIRST = HookDecision(
    door="skypilot",
    mode="change",
    user_name=None,
    queue=None,
    job_name="tune",
    principal="sky",
    request_id="r-1",
    key_id=None,
    digest="1" * 32,
    question={"model": "llama-2-7b", "layout": {"data_parallel": 1}},
    gpu="A100-SXM4-80GB",
    verdict="does_not_fit",
    action="change",
    needed_bytes=2,
    usable_bytes=1,
    sentence="headroom: does not fit",
)
GROWN = replace(
    FIRST,
    user_name="ann",
    digest="2" * 32,
    question={"model": "llama-2-7b", "layout": {"data_parallel": 2}},
    verdict="fits",
    action="allow",
    needed_bytes=1,
    sentence="headroom: fits",
)
REFUSED = replace(FIRST, action="refuse")


def count_rows(*decisions: HookDecision, apart_s: float = 1.0) -> int:
    """Return the rows of decisions that were made one after another."""
    recent = RecentDecisions()
    made = (replace(each, id=uuid4(), request_id=str(at)) for at, each in enumerate(decisions))
    return len({recent.find_row(each, at * apart_s) for at, each in enumerate(made)})


@pytest.mark.parametrize(
    ("decisions", "rows"),
    [
        ((FIRST, GROWN), 1),
        ((FIRST, GROWN, GROWN), 1),
        ((REFUSED, REFUSED), 1),
        ((REFUSED, GROWN), 2),
        ((GROWN, REFUSED), 2),
        ((GROWN, replace(GROWN, user_name="bob")), 2),
        ((GROWN, replace(GROWN, user_name=None)), 1),
        ((FIRST, replace(GROWN, question={"model": "llama-2-13b", "layout": {}})), 2),
        ((GROWN, replace(GROWN, job_name="other")), 2),
        ((replace(GROWN, door="dstack"), replace(GROWN, door="dstack")), 1),
        ((replace(GROWN, door="slurm"), replace(GROWN, door="slurm")), 2),
    ],
    ids=[
        "changed by the client's question and sent again",
        "asked a third time",
        "refused twice",
        "mended after a refusal",
        "broken after it passed",
        "another user's",
        "by a client that names nobody",
        "another model",
        "another job",
        "planned and applied",
        "a scheduler that asks once",
    ],
)
def test_a_submission_is_one_decision(decisions: tuple[HookDecision, ...], rows: int) -> None:
    """However many times its scheduler asks, and whatever the first answer changed."""
    assert count_rows(*decisions) == rows


@pytest.mark.parametrize(
    ("door", "apart_s", "rows"),
    [
        ("skypilot", 601.0, 2),
        ("kube_scheduler", 599.0, 1),
        ("kube_scheduler", 601.0, 2),
        ("kueue", 86_399.0, 1),
        ("kueue", 86_401.0, 2),
    ],
)
def test_a_decision_is_repeated_for_a_while(door: str, apart_s: float, rows: int) -> None:
    """Ten minutes, or the day that a job may wait in Kueue."""
    waiting = replace(REFUSED, door=door)

    assert count_rows(waiting, waiting, apart_s=apart_s) == rows


def test_what_is_decided_otherwise_is_another_row() -> None:
    """Of a job that waits: its question was mended, or something was learnt."""
    waiting = replace(REFUSED, door="kueue")

    assert count_rows(waiting, replace(GROWN, door="kueue"), waiting) == 2
