"""Statements about decisions of hooks.

Times are the database's: a decision is stored with its age.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from service.db.pages import Page, PageRequest, make_page, paginate
from service.db.records.hooks import (
    DecisionFilter,
    HookDecision,
    RepeatedDecision,
    StoredDecision,
)
from service.db.tables.hooks import HookDecisionRow, HookQuestionRow

LIST = "hook_decisions"
Row = HookDecisionRow
_COPIED = tuple(name for name in HookDecision.__slots__ if name not in {"question", "before"})
_STORED = StoredDecision.__slots__
_DOORS_OF_PODS = ("kubernetes", "kueue")
"""Doors that are shown the objects that make pods."""


def insert_decisions(session: Session, decisions: Sequence[RepeatedDecision]) -> None:
    """Store decisions, and count those that are stored already."""
    if not decisions:
        return
    now = session.execute(select(func.clock_timestamp())).scalar_one()
    _insert_questions(session, decisions, now)
    statement = insert(Row)
    session.connection().execute(
        statement.on_conflict_do_update(
            index_elements=[Row.id],
            set_={
                "num_times": Row.num_times + statement.excluded.num_times,
                "last_at": func.greatest(Row.last_at, statement.excluded.last_at),
                # Of a scheduler that asks twice, the first question may name nobody.
                "user_name": func.coalesce(Row.user_name, statement.excluded.user_name),
            },
        ),
        [_make_row(repeated, now) for repeated in decisions],
    )


def insert_question(session: Session, digest: str, document: Mapping[str, Any]) -> None:
    """Store a question that was asked now."""
    now = session.execute(select(func.clock_timestamp())).scalar_one()
    _insert_documents(session, {digest: dict(document)}, now)


def list_decisions(
    session: Session, request: PageRequest, filters: DecisionFilter
) -> Page[StoredDecision]:
    """Return a page of decisions, newest first."""
    statement = paginate(
        select(Row).where(*_iter_conditions(filters)),
        request,
        list_name=LIST,
        created_at=Row.created_at,
        row_id=Row.id,
    )
    return make_page(
        session.scalars(statement).all(),
        request,
        list_name=LIST,
        position=lambda row: (row.created_at, row.id),
        value=lambda row: StoredDecision(**{name: getattr(row, name) for name in _STORED}),
    )


def read_question(session: Session, digest: str) -> Mapping[str, Any] | None:
    """Return the question of a digest, None where there is none."""
    return session.scalar(select(HookQuestionRow.document).where(HookQuestionRow.digest == digest))


def list_named_digests(
    session: Session, queue: str, names: Sequence[str], *, before: datetime
) -> Sequence[tuple[str, str | None]]:
    """Return name and digest of objects that were let in, newest first."""
    statement = (
        select(Row.job_name, Row.digest)
        .where(
            Row.door.in_(_DOORS_OF_PODS),
            Row.action != "refuse",
            Row.queue == queue,
            Row.job_name.in_(names),
            Row.created_at <= before,
        )
        .order_by(Row.last_at.desc(), Row.id.desc())
    )
    return [(name, digest) for name, digest in session.execute(statement) if name is not None]


def _insert_questions(
    session: Session, decisions: Iterable[RepeatedDecision], now: datetime
) -> None:
    questions = {
        decision.digest: dict(decision.question)
        for decision in (repeated.decision for repeated in decisions)
        if decision.digest is not None and decision.question is not None
    }
    for repeated in decisions:
        questions |= {digest: dict(other) for digest, other in repeated.questions.items()}
    if questions:
        _insert_documents(session, questions, now)


def _insert_documents(
    session: Session, questions: Mapping[str, dict[str, Any]], now: datetime
) -> None:
    statement = insert(HookQuestionRow)
    session.connection().execute(
        statement.on_conflict_do_update(
            index_elements=[HookQuestionRow.digest], set_={"last_at": statement.excluded.last_at}
        ),
        [
            {"digest": digest, "document": questions[digest], "last_at": now}
            # In one order, so that two processes that store the same ones do not wait in a circle.
            for digest in sorted(questions)
        ],
    )


def _make_row(repeated: RepeatedDecision, now: datetime) -> dict[str, Any]:
    decision = repeated.decision
    return {
        **{name: getattr(decision, name) for name in _COPIED},
        "created_at": now - repeated.first_age,
        "last_at": now - repeated.last_age,
        "num_times": repeated.num_times,
    }


def _iter_conditions(filters: DecisionFilter) -> Iterator[ColumnElement[bool]]:
    for name in ("door", "verdict", "action", "user_name", "queue", "digest"):
        value = getattr(filters, name)
        if value is not None:
            yield getattr(Row, name) == value
    if filters.created_after is not None:
        yield Row.created_at >= filters.created_after
    if filters.created_before is not None:
        yield Row.created_at < filters.created_before
