"""Real servers for tests.

There is one Postgres and one Redis per run, and a migrated and empty database of its own for every
test that asks. A copy of the migrated one costs a hundred times what a test asks of it, so that one
whose schema is untouched is emptied and goes to the next test.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from redis import Redis
from sqlalchemy import Engine
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session, sessionmaker

from service.db.migrate import upgrade
from service.db.session import make_engine, make_sessions
from service.embedded.postgres import run_postgres
from service.embedded.redis import run_redis
from service.runtime.variables import parse_psycopg_url
from tests.running.folders import make_folder

TEMPLATE = "headroom_template"
_SCHEMA = """
  SELECT string_agg(catalogue || ':' || rows || ':' || writers, ' ' ORDER BY catalogue) FROM (
    SELECT tableoid::regclass::text AS catalogue, count(*) AS rows,
           sum(xmin::text::bigint) AS writers
    FROM (
      SELECT tableoid, xmin FROM pg_class UNION ALL SELECT tableoid, xmin FROM pg_attribute
      UNION ALL SELECT tableoid, xmin FROM pg_constraint
      UNION ALL SELECT tableoid, xmin FROM pg_trigger UNION ALL SELECT tableoid, xmin FROM pg_proc
      UNION ALL SELECT tableoid, xmin FROM pg_type UNION ALL SELECT tableoid, xmin FROM pg_namespace
      UNION ALL SELECT tableoid, xmin FROM pg_rewrite
      UNION ALL SELECT tableoid, xmin FROM alembic_version
    ) AS entries GROUP BY tableoid
  ) AS catalogues
"""
"""Who wrote the schema, and the revision: another transaction is another schema."""
_END_OTHERS = """
  SELECT pg_terminate_backend(pid, 10_000) FROM pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
# Rows are deleted in any order, and what guards them is about users.
_DELETE_ROWS = """
  DO $$ DECLARE place text; BEGIN
    SET LOCAL session_replication_role = replica;
    FOR place IN SELECT oid::regclass FROM pg_class WHERE relkind = 'r'
      AND relnamespace = 'public'::regnamespace AND relname <> 'alembic_version'
    LOOP EXECUTE format('DELETE FROM %s', place); END LOOP;
    FOR place IN SELECT oid::regclass FROM pg_class WHERE relkind = 'S'
    LOOP PERFORM setval(place::regclass, 1, false); END LOOP;
  END $$
"""
# A test's data need not outlive a power cut.
_UNSAFE_BUT_FAST = ("fsync", "synchronous_commit", "full_page_writes")


@pytest.fixture(scope="session")
def servers_dir() -> Iterator[Path]:
    """Return a directory with a short name.

    The path of a Unix socket holds 107 bytes, and pytest's own are long.
    """
    with make_folder() as path:
        yield path


@pytest.fixture(scope="session")
def postgres_server(servers_dir: Path) -> Iterator[str]:
    """Return the URL of a running Postgres whose owner may create databases."""
    with run_postgres(servers_dir / "pg") as url:
        for setting in _UNSAFE_BUT_FAST:
            _administer(url, sql.SQL("ALTER SYSTEM SET {} = off").format(sql.Identifier(setting)))
        _administer(url, sql.SQL("SELECT pg_reload_conf()"))
        yield url


@pytest.fixture(scope="session")
def redis_server(servers_dir: Path) -> Iterator[str]:
    """Return the URL of a running Redis."""
    with run_redis(servers_dir / "redis") as url:
        yield url


@pytest.fixture(scope="session")
def migrated_template(postgres_server: str) -> str:
    """Return the name of a database that was built by the migrations.

    Nobody may connect to it.
    """
    _administer(postgres_server, sql.SQL("CREATE DATABASE {}").format(sql.Identifier(TEMPLATE)))
    upgrade(_in_database(postgres_server, TEMPLATE))
    return TEMPLATE


@pytest.fixture
def empty_database_url(postgres_server: str) -> Iterator[str]:
    """Return the URL of this test's own database, without a schema."""
    with fresh_database(postgres_server, "template1") as url:
        yield url


class Databases:
    """Migrated databases, each of one test at a time."""

    def __init__(self, server: str, template: str) -> None:
        """Copy ``template`` where no database is free."""
        self._server, self._template = server, template
        self._schema = _read_schema(_in_database(server, template))
        self._free: list[str] = []

    @contextmanager
    def lend(self) -> Iterator[str]:
        """Yield the URL of an empty database."""
        url = self._free.pop() if self._free else _copy_database(self._server, self._template)
        yield url
        if _empty(url, self._schema):
            self._free.append(_rename_database(self._server, url))
        else:
            _drop_database(self._server, url)


@pytest.fixture(scope="session")
def databases(postgres_server: str, migrated_template: str) -> Databases:
    """Return the migrated databases of this run."""
    return Databases(postgres_server, migrated_template)


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """Return the URL of this test's own database, migrated."""
    with databases.lend() as url:
        yield url


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """Return an engine on this test's database."""
    engine = make_engine(
        parse_psycopg_url("DATABASE_URL", database_url), application_name="headroom-test"
    )
    yield engine
    engine.dispose()


@pytest.fixture
def sessions(engine: Engine) -> sessionmaker[Session]:
    """Return sessions on this test's database."""
    return make_sessions(engine)


@pytest.fixture
def redis_url(redis_server: str) -> str:
    """Return the URL of an empty Redis."""
    with closing(Redis.from_url(redis_server)) as client:
        client.flushall()
    return redis_server


@contextmanager
def fresh_database(server: str, template: str) -> Iterator[str]:
    """Yield the URL of a copy of a database, and drop it.

    Nobody may be connected to the original.
    """
    url = _copy_database(server, template)
    yield url
    _drop_database(server, url)


def _copy_database(server: str, template: str) -> str:
    name = f"test_{uuid4().hex}"
    identifiers = {"name": sql.Identifier(name), "template": sql.Identifier(template)}
    # Files are copied in half the time of the default, which writes every block into the log.
    create = sql.SQL("CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
    _administer(server, create.format(**identifiers))
    return _in_database(server, name)


def _rename_database(server: str, url: str) -> str:
    """Give a database a name that nobody who was there before knows."""
    names = str(make_url(url).database), f"test_{uuid4().hex}"
    rename = sql.SQL("ALTER DATABASE {} RENAME TO {}").format(*map(sql.Identifier, names))
    _administer(server, rename)
    return _in_database(server, names[1])


def _drop_database(server: str, url: str) -> None:
    # A program that a test killed may have left its connection behind.
    name = sql.Identifier(str(make_url(url).database))
    _administer(server, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


def _empty(url: str, schema: str) -> bool:
    """Delete every row; return False, and delete none, where more than rows was changed."""
    with psycopg.connect(url, autocommit=True) as connection:
        # A program that a test killed may have left its connection behind.
        connection.execute(_END_OTHERS)
        if connection.execute(_SCHEMA).fetchone() != (schema,):
            return False
        connection.execute(_DELETE_ROWS)
    return True


def _read_schema(url: str) -> str:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(_SCHEMA).fetchone()
    assert row is not None
    return str(row[0])


def _administer(url: str, statement: sql.SQL | sql.Composed) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)


def _in_database(url: str, name: str) -> str:
    return make_url(url).set(database=name).render_as_string(hide_password=False)
