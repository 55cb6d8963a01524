"""Sessions fail in our words, and never wait without an end."""

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from sqlalchemy import Engine, event, select, text
from sqlalchemy.exc import DisconnectionError, IntegrityError, InvalidRequestError
from sqlalchemy.orm import Session, sessionmaker

from service.base.errors import (
    NotMigratedError,
    ServiceError,
    UnavailableError,
    UnstorableTextError,
)
from service.db.session import make_engine, make_sessions, transaction
from service.db.tables.clusters import ClusterRow
from service.db.tables.core import MeasureJobRow
from service.db.tables.models import ModelRow
from service.runtime.variables import parse_psycopg_url

MODEL: dict[str, object] = {"current_revision": 1}


def sessions_on(
    url: str, *, pool_size: int = 1, pool_timeout_s: float = 10
) -> tuple[Engine, sessionmaker[Session]]:
    """Return an engine on any database, and its sessions."""
    address = parse_psycopg_url("DATABASE_URL", url)
    engine = make_engine(
        address,
        application_name="headroom-test",
        pool_size=pool_size,
        pool_timeout_s=pool_timeout_s,
    )
    return engine, make_sessions(engine)


def names(sessions: sessionmaker[Session]) -> list[str]:
    """Return the names of all stored models."""
    with transaction(sessions) as session:
        return list(session.scalars(select(ModelRow.name)))


def test_a_block_that_ends_is_committed(sessions: sessionmaker[Session]) -> None:
    """The end of the block is the commit."""
    with transaction(sessions) as session:
        session.add(ModelRow(name="kept", **MODEL))

    assert names(sessions) == ["kept"]


def test_a_block_that_raises_is_rolled_back(sessions: sessionmaker[Session]) -> None:
    """A refusal in the middle leaves nothing behind and passes through unchanged."""

    def store_and_refuse() -> None:
        with transaction(sessions) as session:
            session.add(ModelRow(name="gone", **MODEL))
            session.flush()
            message = "no"
            raise ServiceError(message)

    with pytest.raises(ServiceError, match=r"^no$"):
        store_and_refuse()

    assert names(sessions) == []


def test_an_unexpected_error_keeps_its_type(sessions: sessionmaker[Session]) -> None:
    """A broken constraint is a mistake of ours, not an outage."""

    def store_twice() -> None:
        with transaction(sessions) as session:
            session.add_all([ModelRow(name="m", **MODEL), ModelRow(name="m", **MODEL)])

    with pytest.raises(IntegrityError):
        store_twice()


def test_a_database_that_is_away() -> None:
    """Nobody listens: the caller learns that it is temporary, and not where the database lives."""
    engine, sessions = sessions_on("postgresql://nobody:secret@127.0.0.1:1/x")

    with pytest.raises(UnavailableError) as error:
        names(sessions)

    engine.dispose()
    assert "secret" not in error.value.detail


def test_a_connection_that_was_cut(database_url: str, sessions: sessionmaker[Session]) -> None:
    """A pooled connection that died while nobody used it is replaced without an error."""
    other, administration = sessions_on(database_url)
    assert names(sessions) == []
    with administration.begin() as session:
        others = (
            "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        assert (
            session.execute(text(f"SELECT count(pg_terminate_backend(pid)) {others}")).scalar_one()
            >= 1
        )
    other.dispose()

    assert names(sessions) == []


def test_a_connection_that_is_cut_in_use(
    database_url: str, sessions: sessionmaker[Session]
) -> None:
    """A transaction that loses its connection says that the database is away."""

    def work_on_a_cut_connection() -> None:
        with transaction(sessions) as session:
            pid = session.execute(text("SELECT pg_backend_pid()")).scalar_one()
            other, administration = sessions_on(database_url)
            with administration.begin() as killer:
                killer.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
            other.dispose()
            session.execute(text("SELECT 1"))

    with pytest.raises(UnavailableError):
        work_on_a_cut_connection()


def test_a_statement_without_an_end(sessions: sessionmaker[Session]) -> None:
    """A statement that waits for ever is cancelled by the server and counts as an outage."""

    def wait() -> None:
        with transaction(sessions) as session:
            session.execute(text("SET LOCAL statement_timeout = '20ms'"))
            session.execute(text("SELECT pg_sleep(600)"))

    with pytest.raises(UnavailableError):
        wait()


def test_a_disk_that_is_full(sessions: sessionmaker[Session]) -> None:
    """It is said as such: trying again alone would not help."""
    full = "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '53100', MESSAGE = 'x'; END $$"

    with (
        pytest.raises(UnavailableError, match="disk is full, and nothing was stored"),
        transaction(sessions) as session,
    ):
        session.execute(text(full))


def test_a_transaction_that_its_server_gave_up(sessions: sessionmaker[Session]) -> None:
    """Whoever stood still in one is told to try again: a worker that was frozen goes on.

    While a connection is made, SQLAlchemy does not say that it was lost.
    """
    given_up = "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '25P03', MESSAGE = 'x'; END $$"

    with pytest.raises(UnavailableError), transaction(sessions) as session:
        session.execute(text(given_up))


def test_a_pool_whose_connections_do_not_answer(database_url: str) -> None:
    """It tries twice, and its own error is an outage: a reconciler goes on after it."""
    engine, sessions = sessions_on(database_url)

    def lose_connection(*_: object) -> None:
        raise DisconnectionError

    event.listen(engine, "checkout", lose_connection)
    with pytest.raises(UnavailableError, match="does not answer"):
        names(sessions)
    engine.dispose()


def test_a_pool_that_is_used_up(database_url: str) -> None:
    """The connection over the limit waits a while and then says so."""
    engine, sessions = sessions_on(database_url, pool_timeout_s=0.05)
    with transaction(sessions) as session:
        session.execute(text("SELECT 1"))
        with pytest.raises(UnavailableError, match="busy"):
            names(sessions)
    engine.dispose()


def test_a_database_without_our_schema(empty_database_url: str) -> None:
    """Who forgot to migrate is told what to run."""
    engine, sessions = sessions_on(empty_database_url)

    with pytest.raises(NotMigratedError, match="headroom migrate"):
        names(sessions)

    engine.dispose()


@pytest.mark.parametrize("name", ["a\0b", "lone \ud800 surrogate"])
def test_text_that_cannot_be_stored(sessions: sessionmaker[Session], name: str) -> None:
    """NUL and lone surrogates are refused before they are sent, with the character that is
    wrong.
    """

    def store() -> None:
        with transaction(sessions) as session:
            session.add(ModelRow(name=name, **MODEL))

    with pytest.raises(UnstorableTextError, match=r"U\+0000|U\+D800"):
        store()


@pytest.mark.parametrize(
    "document",
    [{"a": "\0"}, {"\0": 1}, {"a": [{"b": ["c", "\ud800"]}]}],
    ids=["value", "key", "depth"],
)
def test_documents_that_cannot_be_stored(
    sessions: sessionmaker[Session], document: dict[str, object]
) -> None:
    """The same holds for every key and string of a document, at any depth."""

    def store() -> None:
        with transaction(sessions) as session:
            session.add(
                MeasureJobRow(device="cpu", request=document, key="k", deadline_at=text("now()"))
            )

    with pytest.raises(UnstorableTextError):
        store()


def test_a_document_comes_back_as_it_was(sessions: sessionmaker[Session]) -> None:
    """Large integers, small floats, text beyond the first plane, backslashes and nothing at all
    survive storage.
    """
    document = {
        "n": 2**63 + 1,
        "f": 1e-06,
        "t": "ü \U0001f9ee \\u0000 \u2028",
        "none": None,
        "list": [1, [2.5, {}]],
        "true": True,
    }
    job_id = uuid4()
    with transaction(sessions) as session:
        session.add(
            MeasureJobRow(
                id=job_id, device="cpu", request=document, key="k", deadline_at=text("now()")
            ),
        )
    with transaction(sessions) as session:
        stored = session.get_one(MeasureJobRow, job_id).request

    assert stored == document


def test_not_a_number_is_no_document(sessions: sessionmaker[Session]) -> None:
    """NaN is no JSON; it is refused where it was made rather than by the server."""

    def store() -> None:
        with sessions.begin() as session:
            session.add(
                MeasureJobRow(
                    device="cpu", request={"x": float("nan")}, key="k", deadline_at=text("now()")
                ),
            )

    with pytest.raises(Exception, match="not JSON compliant"):
        store()


def test_an_unplanned_query_is_an_error(sessions: sessionmaker[Session]) -> None:
    """A relation that no query asked for raises instead of asking the database once per row."""
    with transaction(sessions) as session:
        session.add(ClusterRow(name="c", version=1))
    with transaction(sessions) as session:
        row = session.scalars(select(ClusterRow)).one()
        with pytest.raises(InvalidRequestError, match="lazy='raise'"):
            _ = row.pools


def test_connections_name_themselves(sessions: sessionmaker[Session]) -> None:
    """The operator sees in pg_stat_activity who is connected, and no statement runs without a
    limit.
    """
    wanted = ("application_name", "timezone", "statement_timeout")
    with transaction(sessions) as session:
        shown = [session.execute(text(f"SHOW {name}")).scalar_one() for name in wanted]

    assert shown == ["headroom-test", "UTC", "30s"]


def test_threads_share_the_pool(database_url: str) -> None:
    """More threads than connections all get their turn."""
    engine, sessions = sessions_on(database_url, pool_size=2)
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: names(sessions), range(32)))
    open_connections = engine.pool.checkedout()  # type: ignore[attr-defined]  # QueuePool has it, its base does not
    engine.dispose()

    assert answers == [[]] * 32
    assert open_connections == 0
