"""Log of what hooks decided.

No job waits for it: decisions are kept in memory and stored a second later, many at once. Those of
a process that is killed meanwhile are lost, and so are the oldest where the database stays away.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy.exc import SQLAlchemyError

from service.base.errors import NotFoundError, ServiceError, UnavailableError
from service.db.queries import hooks as queries
from service.db.records.hooks import (
    DecisionFilter,
    HookDecision,
    RepeatedDecision,
    StoredDecision,
)
from service.db.session import transaction
from service.runtime.logs import get_logger
from service.usecases.hooks.decision import HookQuestion
from service.usecases.hooks.repeats import RecentDecisions
from service.usecases.stored import Page, PageRequest, Sessions

MAX_WAITING = 4096
"""Decisions that wait to be stored, with a question of at most 16 KiB each."""
MAX_AT_ONCE = 256
__all__ = [
    "DecisionFilter",
    "DecisionLog",
    "HookDecision",
    "StoredDecision",
    "find_question",
    "list_decisions",
    "store_question",
]

_log = get_logger(__name__)


@dataclass(slots=True)
class _Waiting:
    """A decision that is not stored yet; times are the log's clock."""

    decision: HookDecision
    first_at: float
    last_at: float
    num_times: int = 1
    questions: dict[str, Mapping[str, object]] = field(default_factory=dict)
    """Of later decisions of the row, by their digests."""

    def add(self, decision: HookDecision, now: float) -> None:
        """Count a decision of the same row."""
        self.num_times += 1
        self.last_at = now
        if self.decision.user_name is None:
            self.decision = replace(self.decision, user_name=decision.user_name)
        if decision.digest is not None and decision.question is not None:
            # A job whose GPUs were changed runs under the later one.
            self.questions[decision.digest] = decision.question


class DecisionLog:
    """Buffer of decisions before the database."""

    def __init__(
        self,
        sessions: Sessions,
        *,
        on_loss: Callable[[int], None] = lambda _number: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start empty; ``on_loss`` is told how many will never be stored."""
        self._sessions = sessions
        self._on_loss = on_loss
        self._clock = clock
        self._waiting: OrderedDict[UUID, _Waiting] = OrderedDict()
        self._recent = RecentDecisions()
        self._lock = threading.Lock()

    def add(self, decision: HookDecision) -> None:
        """Keep a decision until the next flush."""
        now = self._clock()
        with self._lock:
            decision_id = self._recent.find_row(decision, now)
            waiting = self._waiting.get(decision_id)
            if waiting is not None:
                waiting.add(decision, now)
                return
            waiting = _Waiting(replace(decision, id=decision_id), now, now)
            if decision.before is not None:
                digest, question = decision.before
                waiting.questions[digest] = question
            self._waiting[decision_id] = waiting
            num_lost = self._drop_oldest()
        if num_lost:
            self._on_loss(num_lost)

    def flush(self) -> None:
        """Store everything that waits.

        Raises UnavailableError where the database is away; what waits then waits for the next time.
        """
        while True:
            with self._lock:
                batch = [
                    self._waiting.popitem(last=False)[1]
                    for _ in range(min(MAX_AT_ONCE, len(self._waiting)))
                ]
            if not batch:
                return
            self._store(batch)

    def _drop_oldest(self) -> int:
        num_lost = 0
        while len(self._waiting) > MAX_WAITING:
            num_lost += self._waiting.popitem(last=False)[1].num_times
        return num_lost

    def _store(self, batch: Sequence[_Waiting]) -> None:
        try:
            self._insert(batch)
        except UnavailableError:
            self._put_back(batch)
            raise
        except (ServiceError, SQLAlchemyError) as error:
            if len(batch) == 1:
                self._on_loss(batch[0].num_times)
                _log.error("hooks.not_stored", job=batch[0].decision.job_name, reason=str(error))
                return
            # Of many at once, the database refuses all for one.
            for index, waiting in enumerate(batch):
                try:
                    self._store([waiting])
                except UnavailableError:
                    # That one is back already; those behind it wait as well.
                    self._put_back(batch[index + 1 :])
                    raise

    def _insert(self, batch: Sequence[_Waiting]) -> None:
        now = self._clock()
        repeated = [
            RepeatedDecision(
                decision=waiting.decision,
                num_times=waiting.num_times,
                questions=waiting.questions,
                first_age=timedelta(seconds=now - waiting.first_at),
                last_age=timedelta(seconds=now - waiting.last_at),
            )
            for waiting in batch
        ]
        with transaction(self._sessions) as session:
            queries.insert_decisions(session, repeated)

    def _put_back(self, batch: Sequence[_Waiting]) -> None:
        with self._lock:
            newer = self._waiting
            self._waiting = OrderedDict((waiting.decision.id, waiting) for waiting in batch)
            for row_id, waiting in newer.items():
                older = self._waiting.get(row_id)
                if older is None:
                    self._waiting[row_id] = waiting
                else:
                    older.add(waiting.decision, waiting.last_at)
                    older.num_times += waiting.num_times - 1
                    older.questions |= waiting.questions
            num_lost = self._drop_oldest()
        if num_lost:
            self._on_loss(num_lost)


def list_decisions(
    sessions: Sessions, request: PageRequest, filters: DecisionFilter
) -> Page[StoredDecision]:
    """Return a page of decisions, newest first."""
    with transaction(sessions) as session:
        return queries.list_decisions(session, request, filters)


def store_question(sessions: Sessions, question: HookQuestion) -> None:
    """Store a question, to be found by its digest."""
    with transaction(sessions) as session:
        queries.insert_question(session, question.digest, question.document)


def find_question(sessions: Sessions, digest: str) -> Mapping[str, Any]:
    """Return the question of a digest, as a body of ``POST /v1/fit``.

    Raises NotFoundError where no hook was asked it, or where it was pruned.
    """
    with transaction(sessions) as session:
        document = queries.read_question(session, digest)
    if document is None:
        message = (
            f"there is no question {digest}: no hook was asked it, or it was deleted since "
            "(headroom prune)"
        )
        raise NotFoundError(message)
    return document
