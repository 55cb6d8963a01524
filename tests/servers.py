"""Real servers for tests.

There is one Postgres and one Redis per run, and a migrated database of its own for every test that
asks.
"""

import shutil
import tempfile
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

TEMPLATE = "headroom_template"
# A test's data need not outlive a power cut.
_UNSAFE_BUT_FAST = ("fsync", "synchronous_commit", "full_page_writes")


@pytest.fixture(scope="session")
def servers_dir() -> Iterator[Path]:
    """Return a directory with a short name.

    The path of a Unix socket holds 107 bytes, and pytest's own are long.
    """
    path = Path(tempfile.mkdtemp(prefix="headroom-"))
    yield path
    shutil.rmtree(path)


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


@pytest.fixture
def database_url(postgres_server: str, migrated_template: str) -> Iterator[str]:
    """Return the URL of this test's own database, migrated."""
    with fresh_database(postgres_server, migrated_template) as url:
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
    name = f"test_{uuid4().hex}"
    identifiers = {"name": sql.Identifier(name), "template": sql.Identifier(template)}
    # Files are copied in half the time of the default, which writes every block into the log.
    create = sql.SQL("CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
    _administer(server, create.format(**identifiers))
    yield _in_database(server, name)
    # A program that a test killed may have left its connection behind.
    _administer(server, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _administer(url: str, statement: sql.SQL | sql.Composed) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)


def _in_database(url: str, name: str) -> str:
    return make_url(url).set(database=name).render_as_string(hide_password=False)
