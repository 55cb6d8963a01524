"""Calibrations are added, never changed; the newest of a key and quantity holds."""

import threading
from datetime import timedelta
from uuid import UUID, uuid4

from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from service.db.pages import PageRequest
from service.db.queries import calibrations as queries
from service.db.records.stored import NewCalibration
from service.db.session import transaction
from service.usecases.learning import calibrations
from tests.integration.usecases.learning.builders import list_current
from tests.locks import wait_for_blocked_transaction

MEASUREMENT = uuid4()


def learn(
    sessions: sessionmaker[Session], key: str, *, quantity: str = "allocated", fixed_bytes: int = 0
) -> UUID:
    """Store one calibration."""
    new = NewCalibration(
        key=key,
        quantity=quantity,
        scope={"family": "llama"},
        correction={"instants": {"forward": {"fixed_bytes": fixed_bytes}}},
        evidence=(MEASUREMENT,),
    )
    with transaction(sessions) as session:
        return queries.add_calibration(session, new)


def test_what_is_stored_comes_back(sessions: sessionmaker[Session]) -> None:
    """A calibration says what it corrects, how, and which measurements it rests on."""
    calibration_id = learn(sessions, "k", fixed_bytes=512)
    with transaction(sessions) as session:
        stored = queries.read_calibration(session, calibration_id)
        missing = queries.read_calibration(session, uuid4())

    assert stored is not None
    assert (stored.key, stored.quantity, stored.scope, stored.evidence) == (
        "k",
        "allocated",
        {"family": "llama"},
        (MEASUREMENT,),
    )
    assert stored.correction == {"instants": {"forward": {"fixed_bytes": 512}}}
    assert missing is None


def test_the_newest_holds(sessions: sessionmaker[Session]) -> None:
    """A later calibration of a key replaces the earlier one in answers; that one stays in the
    list.
    """
    first, second = learn(sessions, "k", fixed_bytes=1), learn(sessions, "k", fixed_bytes=2)

    assert {key: found.id for key, found in list_current(sessions).items()} == {
        ("k", "allocated"): second
    }
    assert [item.id for item in calibrations.list_page(sessions, PageRequest()).items] == [
        second,
        first,
    ]


def test_quantities_are_kept_apart(sessions: sessionmaker[Session]) -> None:
    """What was learnt about reserved bytes says nothing about allocated ones."""
    allocated = learn(sessions, "k")
    reserved = learn(sessions, "k", quantity="reserved")

    assert {key: found.id for key, found in list_current(sessions).items()} == {
        ("k", "allocated"): allocated,
        ("k", "reserved"): reserved,
    }


def test_the_list_can_be_narrowed(sessions: sessionmaker[Session]) -> None:
    """The history of one key, page by page."""
    ids = [learn(sessions, "a"), learn(sessions, "b"), learn(sessions, "a")]
    first = calibrations.list_page(sessions, PageRequest(limit=1), key="a")
    second = calibrations.list_page(
        sessions, PageRequest(limit=1, cursor=first.next_cursor), key="a"
    )

    assert [first.items[0].id, second.items[0].id, second.next_cursor] == [ids[2], ids[0], None]


def test_a_cache_starts_with_what_holds_and_is_told_of_changes(
    sessions: sessionmaker[Session],
) -> None:
    """From nothing it gets one row per key; later only keys that changed lately."""
    learn(sessions, "a", fixed_bytes=1)
    a, b = learn(sessions, "a", fixed_bytes=2), learn(sessions, "b")
    start = calibrations.list_changed_since(sessions, None)
    with transaction(sessions) as session:
        session.execute(text("UPDATE calibrations SET created_at = created_at - interval '1 hour'"))
    seen = max(item.created_at for item in start)
    c = learn(sessions, "c")

    assert {item.id for item in start} == {a, b}
    assert {item.id for item in calibrations.list_changed_since(sessions, seen)} == {c}


def test_a_cache_misses_no_late_commit(sessions: sessionmaker[Session]) -> None:
    """A row whose transaction took its time carries an early time, and is told all the same."""
    with sessions.begin() as slow:
        late = queries.add_calibration(
            slow,
            NewCalibration(
                key="late", quantity="allocated", scope={}, correction={}, evidence=(MEASUREMENT,)
            ),
        )
        learn(sessions, "early")
        (early,) = calibrations.list_changed_since(sessions, None)

    found = calibrations.list_changed_since(sessions, early.created_at + timedelta(seconds=1))
    assert late in {item.id for item in found}


def test_one_at_a_time_learns_about_a_key(sessions: sessionmaker[Session]) -> None:
    """The second of two derivations waits for the first and sees what it stored; another key is
    free meanwhile.
    """
    seen: list[int] = []

    def learn_second() -> None:
        with transaction(sessions) as session:
            queries.lock_key(session, "k")
            seen.append(len(queries.list_calibrations_since(session, None)))

    with transaction(sessions) as session:
        queries.lock_key(session, "k")
        thread = threading.Thread(target=learn_second)
        thread.start()
        wait_for_blocked_transaction(sessions)
        with transaction(sessions) as other:
            queries.lock_key(other, "another key")
        queries.add_calibration(
            session,
            NewCalibration(
                key="k", quantity="allocated", scope={}, correction={}, evidence=(MEASUREMENT,)
            ),
        )
    thread.join()

    assert seen == [1]
