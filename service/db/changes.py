"""Changes that are written down in the transaction that makes them.

A process that is killed between a change and its row in the log would leave a change that nobody
made.
"""

from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from uuid import UUID, uuid4

from sqlalchemy import cast, func, literal, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from service.db.records.keys import AuditEvent
from service.db.tables.access import AuditEventRow


@dataclass(slots=True, kw_only=True)
class Change:
    """A change while it is being made.

    ``event`` is what the log says of it, ``None`` before its principal is let in and after its
    answer. ``is_stored`` once a transaction with a row of it was committed, whose id is
    ``row_id`` where that is given.
    """

    event: AuditEvent | None = None
    is_stored: bool = False
    row_id: UUID | None = None

    @property
    def event_id(self) -> UUID:
        """The id of its row, drawn when it is first asked for."""
        if self.row_id is None:
            self.row_id = uuid4()
        return self.row_id


_change: ContextVar[Change | None] = ContextVar("change", default=None)


class _Followed:
    """A change while its block runs.

    Every request has one: a generator's context manager takes three times as long.
    """

    __slots__ = ("_change", "_token")

    def __init__(self, change: Change) -> None:
        self._change = change

    def __enter__(self) -> None:
        self._token = _change.set(self._change)

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._change.event = None
        _change.reset(self._token)


def follow_change(change: Change) -> AbstractContextManager[None]:
    """Write a change down with what the block changes.

    The first transaction that changes anything has its row.
    """
    return _Followed(change)


def write_change(session: Session) -> Change | None:
    """Write the change of this context into its transaction.

    Returns it where that was done. Only a transaction that has changed something has an id.
    """
    change = _change.get()
    if change is None or change.event is None or change.is_stored:
        return None
    columns = {name: AuditEventRow.__table__.columns[name] for name in AuditEvent.__slots__}
    values = [cast(literal(getattr(change.event, name)), columns[name].type) for name in columns]
    has_changed = func.pg_current_xact_id_if_assigned().is_not(None)
    written = session.scalar(
        insert(AuditEventRow)
        .from_select(list(columns), select(*values).where(has_changed), include_defaults=False)
        .on_conflict_do_nothing()
        .returning(AuditEventRow.id)
    )
    return None if written is None else change
