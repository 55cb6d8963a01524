"""A change and its row in the log are one transaction."""

from uuid import UUID

import pytest
from sqlalchemy.orm import Session, sessionmaker

from service.access.keys import Scope, create_token
from service.base.errors import NotFoundError
from service.db.queries import keys as queries
from service.db.session import transaction
from service.usecases.access import keys
from service.usecases.access.keys import AuditEvent, Change, NewKey, follow_change
from service.usecases.stored import PageRequest

NEW = NewKey(name="ci", scopes=frozenset({Scope.READ}), created_by="a test")


def a_change(status: int = 201) -> Change:
    """Return a change that was let in and is not answered yet."""
    event = AuditEvent(
        principal="ops", key_id=None, operation="createKey", method="POST", path="/v1/keys",
        status=status, request_id="r", peer=None,
    )  # fmt: skip
    return Change(row_id=event.id, event=event)


def list_rows(sessions: sessionmaker[Session]) -> list[tuple[UUID, int]]:
    """Return the ids and statuses of the log, newest first."""
    items = keys.list_changes(sessions, PageRequest()).items
    return [(item.id, item.event.status) for item in items]


def test_what_is_changed_is_written_down_with_it(sessions: sessionmaker[Session]) -> None:
    """Nobody records the answer here: the process may have been killed."""
    change = a_change()

    with follow_change(change):
        keys.create(sessions, NEW)
        keys.create(sessions, NEW)

    assert list_rows(sessions) == [(change.event_id, 201)]
    assert change.is_stored


def test_a_transaction_that_only_reads_writes_no_row(sessions: sessionmaker[Session]) -> None:
    """A change begins with questions, and may end there."""
    change = a_change()

    with follow_change(change):
        keys.list_page(sessions, PageRequest())
        with pytest.raises(NotFoundError):
            keys.revoke(sessions, UUID(int=1))

    assert list_rows(sessions) == []
    assert not change.is_stored


def test_a_change_that_is_rolled_back_leaves_no_row(sessions: sessionmaker[Session]) -> None:
    """What was not changed was not made by anybody."""
    change = a_change()

    def fail() -> None:
        with transaction(sessions) as session:
            queries.insert_key(session, NEW, create_token())
            raise RuntimeError

    with follow_change(change), pytest.raises(RuntimeError):
        fail()

    assert list_rows(sessions) == []
    assert not change.is_stored


def test_after_its_answer_a_change_is_not_followed(sessions: sessionmaker[Session]) -> None:
    """What a request started and goes on without it is no part of the change."""
    change = a_change()
    with follow_change(change):
        pass

    with follow_change(change):
        keys.create(sessions, NEW)

    assert list_rows(sessions) == []


def test_another_answer_than_expected_takes_the_place(sessions: sessionmaker[Session]) -> None:
    """The row has the status that was sent."""
    change = a_change()
    event = change.event
    assert event is not None
    with follow_change(change):
        keys.create(sessions, NEW)

    keys.record_change(
        sessions,
        AuditEvent(
            id=event.id, principal="ops", key_id=None, operation="createKey", method="POST",
            path="/v1/keys", status=503, request_id="r", peer=None,
        ),
    )  # fmt: skip

    assert list_rows(sessions) == [(event.id, 503)]
