"""The log of hooks: stored a moment later, many at once, read in pages, and deleted when old."""

import csv
import io
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from litestar.testing import TestClient
from sqlalchemy import create_engine, func, select, update
from sqlalchemy.orm import Session, sessionmaker

from service.base.errors import NotFoundError, UnavailableError
from service.cli.submissions.plans import read_question
from service.db.session import make_sessions
from service.db.tables.hooks import ACTIONS, VERDICTS, HookDecisionRow, HookQuestionRow
from service.usecases.hooks import log
from service.usecases.hooks.decision import Action, HookVerdict
from service.usecases.hooks.log import DecisionFilter, DecisionLog, HookDecision
from service.usecases.operations.retention import prune
from service.usecases.stored import PageRequest
from tests.unit.api.builders import NOWHERE, parts, served

Sessions = sessionmaker[Session]
QUESTION = {"model": "llama-2-7b", "gpu": "A100-SXM4-80GB", "workload": {"task": "train"}}
CONFIG = {
    "model_type": "llama",
    "vocab_size": 32,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
}
DIGEST = "9a0364b9e99bb480dd25e1f0284c8555"
ASKED = HookDecision(
    door="slurm",
    mode="refuse",
    user_name="ann",
    queue="gpu",
    job_name="tune",
    principal="slurm key",
    request_id="r-1",
    key_id=None,
    digest=DIGEST,
    question=QUESTION,
    gpu="A100-SXM4-80GB",
    verdict="does_not_fit",
    action="refuse",
    needed_bytes=2**37,
    usable_bytes=2**36,
    sentence="headroom: does not fit",
)


def a_decision(**members: object) -> HookDecision:
    """Return another decision like the one above."""
    made = {name: getattr(ASKED, name) for name in HookDecision.__slots__ if name != "id"}
    return HookDecision(**(made | members))


def list_all(sessions: Sessions, **filters: Any) -> list[tuple[str, str | None, int]]:  # noqa: ANN401 - of any filter
    """Return door, user and number of each decision, newest first."""
    page = log.list_decisions(sessions, PageRequest(), DecisionFilter(**filters))
    return [(item.door, item.user_name, item.num_times) for item in page.items]


def test_decisions_are_stored_with_their_question(sessions: Sessions) -> None:
    """Nothing before the flush; then each has a row, and their question one for all."""
    kept = DecisionLog(sessions)
    for user in ("ann", "ben"):
        kept.add(a_decision(user_name=user))
    assert list_all(sessions) == []

    kept.flush()
    kept.flush()

    assert sorted(list_all(sessions)) == [("slurm", "ann", 1), ("slurm", "ben", 1)]
    assert list_all(sessions, user_name="ben", door="slurm") == [("slurm", "ben", 1)]
    assert list_all(sessions, verdict="fits") == []
    assert log.find_question(sessions, DIGEST) == QUESTION
    with pytest.raises(NotFoundError, match="no hook was asked it"):
        log.find_question(sessions, "0" * 32)


def test_a_scheduler_that_repeats_itself_has_one_row(sessions: Sessions) -> None:
    """For ten minutes, across flushes; another line is another decision."""
    now = 1000.0
    kept = DecisionLog(sessions, clock=lambda: now)
    for _ in range(3):
        kept.add(a_decision(door="volcano", request_id="r-2"))
    kept.flush()
    now += 500
    kept.add(a_decision(door="volcano"))
    kept.flush()
    kept.add(a_decision(door="volcano", sentence="headroom: fits", verdict="fits"))
    now += 200
    kept.add(a_decision(door="volcano"))

    kept.flush()

    assert sorted(list_all(sessions)) == [("volcano", "ann", 1)] * 2 + [("volcano", "ann", 4)]


def test_a_scheduler_that_asks_twice_names_its_user_later(sessions: Sessions) -> None:
    """In the same row, whether it is stored already or not."""
    kept = DecisionLog(sessions)
    kept.add(a_decision(door="skypilot", user_name=None))
    kept.flush()

    kept.add(a_decision(door="skypilot", user_name="ann"))
    kept.flush()

    assert list_all(sessions) == [("skypilot", "ann", 2)]


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_job_that_was_changed_has_its_later_question_too(
    sessions: Sessions, *, is_stored: bool
) -> None:
    """Its task carries the second digest, though both answers are one decision."""
    kept = DecisionLog(sessions)
    first = a_decision(door="skypilot", action="change", question=QUESTION | {"layout": {}})
    later = replace(
        a_decision(door="skypilot", verdict="fits", action="allow", digest="2" * 32),
        question=QUESTION | {"layout": {"data_parallel": 2}},
    )
    kept.add(first)
    if is_stored:
        kept.flush()
    kept.add(later)

    kept.flush()

    assert list_all(sessions) == [("skypilot", "ann", 2)]
    assert log.find_question(sessions, "2" * 32)["layout"] == {"data_parallel": 2}
    assert log.find_question(sessions, DIGEST)["layout"] == {}


def test_the_question_of_a_changed_job_is_kept_from_before(sessions: Sessions) -> None:
    """Its line links to it."""
    kept = DecisionLog(sessions)
    kept.add(a_decision(action="change", before=("3" * 32, {"model": "gpt2"})))

    kept.flush()

    assert log.find_question(sessions, "3" * 32) == {"model": "gpt2"}
    assert log.find_question(sessions, DIGEST) == QUESTION


def test_what_the_database_missed_waits_for_it() -> None:
    """As many as there is room for; the oldest are lost, and counted."""
    lost: list[int] = []
    kept = DecisionLog(make_sessions(create_engine(NOWHERE)), on_loss=lost.append)
    for _ in range(2):
        kept.add(ASKED)
    with pytest.raises(UnavailableError):
        kept.flush()

    for _ in range(log.MAX_WAITING):
        kept.add(a_decision())

    assert sum(lost) == 2


def test_one_that_cannot_be_stored_holds_up_no_other(sessions: Sessions) -> None:
    """It is counted as lost."""
    lost: list[int] = []
    kept = DecisionLog(sessions, on_loss=lost.append)
    for verdict in ("fits", "perhaps", "tight"):
        kept.add(a_decision(verdict=verdict))

    kept.flush()

    assert len(list_all(sessions)) == 2
    assert lost == [1]


def test_the_table_knows_every_verdict_and_action() -> None:
    """But that nothing was decided, which is not stored."""
    assert set(VERDICTS) == set(HookVerdict) - {HookVerdict.NONE}
    assert set(ACTIONS) == set(Action)


def test_old_decisions_go_and_their_questions_with_them(sessions: Sessions) -> None:
    """A question stays for as long as it is asked."""
    kept = DecisionLog(sessions)
    kept.add(ASKED)
    kept.add(a_decision(digest="0" * 32))
    kept.flush()
    long_ago = func.now() - timedelta(days=91)
    with sessions.begin() as session:
        session.execute(update(HookDecisionRow).values(created_at=long_ago, last_at=long_ago))
        session.execute(
            update(HookQuestionRow).where(HookQuestionRow.digest == DIGEST).values(last_at=long_ago)
        )

    pruned = prune(sessions, older_than=timedelta(days=90))

    assert pruned.decisions == 2
    with sessions() as session:
        assert session.scalars(select(HookQuestionRow.digest)).all() == ["0" * 32]


@pytest.fixture(name="client")
def serve(sessions: Sessions) -> Iterator[TestClient[Any]]:
    """Serve a log of three decisions."""
    kept = DecisionLog(sessions)
    for user, action in (("ann", "warn"), ("ben", "refuse"), ("=cmd()", "refuse")):
        kept.add(a_decision(user_name=user, action=action))
        kept.flush()
    with served(replace(parts(), sessions=sessions)) as client:
        yield client


def test_pages_filters_and_the_table_over_http(client: TestClient[Any]) -> None:
    """Newest first; CSV has all of them, and no cell that a spreadsheet would compute."""
    path = "/v1/hooks/decisions"
    first = client.get(path, params={"limit": 2}).json()
    last = client.get(path, params={"limit": 2, "cursor": first["next_cursor"]}).json()
    refused = client.get(path, params={"action": "refuse", "user": "ben"}).json()["items"]
    table = client.get(path, params={"format": "csv"})
    question = client.get(f"/v1/hooks/questions/{DIGEST}").json()

    assert [item["user"] for item in first["items"] + last["items"]] == ["=cmd()", "ben", "ann"]
    assert last["next_cursor"] is None
    assert [(item["user"], item["question"]) for item in refused] == [("ben", DIGEST)]
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert [row["user"] for row in rows] == ["'=cmd()", "ben", "ann"]
    assert rows[0]["sentence"] == ASKED.sentence
    assert question == {"digest": DIGEST, "question": QUESTION}
    assert client.get(path, params={"verdict": "none"}).status_code == 422
    assert client.get(path, params={"format": "csv", "limit": 2}).status_code == 422


def test_a_plan_that_is_submitted_has_a_question(client: TestClient[Any]) -> None:
    """Its best candidate, kept under a digest, is answered as the plan was."""
    plan = client.post(
        "/v1/plans",
        json={
            "model": "llama-3.2-1b",
            "gpus": ["L40S"],
            "workload": {"task": "train", "method": "lora", "sequence_length": 512},
        },
    ).json()

    named = client.post("/v1/hooks/questions", json=read_question(plan))
    again = client.post("/v1/hooks/questions", json=read_question(plan))

    digest = named.json()["digest"]
    stored = client.get(f"/v1/hooks/questions/{digest}").json()
    assert (named.status_code, again.json(), stored) == (200, named.json(), named.json())
    answer = client.post("/v1/fit", json=stored["question"]).json()
    assert answer["per_gpu"] == plan["candidates"][0]["fit"]["per_gpu"]


@pytest.mark.parametrize(
    ("question", "status"),
    [
        ({"model": "no-such-model", "gpu": "T4", "workload": {"task": "serve"}}, 422),
        (QUESTION | {"workload": {"task": "train", "sequence_length": 512}, "gpu": "no GPU"}, 422),
        (
            QUESTION
            | {
                "model": {"hf_config": CONFIG | {"note": "x" * 20_000}},
                "workload": {"task": "train", "sequence_length": 512},
            },
            413,
        ),
    ],
    ids=["an unknown model", "an unknown GPU", "too long"],
)
def test_what_has_no_answer_is_no_question(
    client: TestClient[Any], question: dict[str, Any], status: int
) -> None:
    """Nothing could ever be joined to it."""
    assert client.post("/v1/hooks/questions", json=question).status_code == status


def test_an_import_says_what_ran_once(client: TestClient[Any]) -> None:
    """By a digest, a pod, or word by word; one that nobody knows is told."""
    report = "headroom-node 1\n[dcgmi]\n| GPU ID: 0 |\n| Max GPU Memory Used (bytes) | 9 |\n"
    path = "/v1/measurements/import"
    both = client.post(path, json={"question": DIGEST, "content": report, "model": "llama-2-7b"})
    unknown = client.post(path, json={"question": "0" * 32, "content": report})
    pod = {"namespace": "ml", "name": "tune-x7x2k", "seen_at": "2026-01-01T12:00:00Z"}
    twice = client.post(path, json={"question": DIGEST, "pod": pod, "content": report})
    nobody = client.post(path, json={"pod": pod, "content": report})

    assert both.status_code == 422
    assert "say one of them" in both.json()["detail"]
    assert unknown.status_code == 404
    assert twice.status_code == 422
    assert twice.json()["errors"][0]["field"] == "pod"
    assert nobody.status_code == 404
    assert "was not asked about what made pod ml/tune-x7x2k" in nobody.json()["detail"]
