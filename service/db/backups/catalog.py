"""Postgres' own account of the tables in a backup."""

from collections.abc import Mapping
from graphlib import TopologicalSorter
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy.engine import make_url

from service.db.backups.archive import BackupError
from service.db.waits import CONNECT_TIMEOUT_S
from service.runtime.variables import parse_psycopg_url

LOCK_TIMEOUT_S = 5
VERSION_TABLE = "alembic_version"
_COLUMNS = """
SELECT relname, array_agg(attname::text ORDER BY attnum) FILTER (WHERE attgenerated = '')
FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') GROUP BY relname
"""
_REFERENCES = """
SELECT here.relname, there.relname FROM pg_constraint
JOIN pg_class here ON here.oid = conrelid JOIN pg_class there ON there.oid = confrelid
WHERE contype = 'f' AND connamespace = current_schema()::regnamespace AND conrelid <> confrelid
"""
Connection = psycopg.Connection[Any]


def connect(database_url: str) -> Connection:
    """Connect without time limits of statements."""
    url = make_url(parse_psycopg_url("DATABASE_URL", database_url)).set(drivername="postgresql")
    try:
        return psycopg.connect(
            url.render_as_string(hide_password=False),
            application_name="headroom-backup",
            connect_timeout=CONNECT_TIMEOUT_S,
        )
    except psycopg.OperationalError as error:
        message = f"the database does not answer: {get_reason(error)}"
        raise BackupError(message) from error


def list_tables(connection: Connection) -> dict[str, list[str]]:
    """Return tables with the columns that can be written.

    A table comes after those that it refers to.
    """
    columns = {str(name): list(names) for name, names in connection.execute(_COLUMNS)}
    graph: dict[str, set[str]] = {name: set() for name in sorted(columns)}
    for name, referred in connection.execute(_REFERENCES):
        graph[str(name)].add(str(referred))
    return {name: columns[name] for name in TopologicalSorter(graph).static_order()}


def make_copy(name: str, columns: list[str], direction: str) -> sql.Composed:
    """Return the COPY of a table, out of it or into it."""
    return sql.SQL("COPY {} ({}) {}").format(
        sql.Identifier(name), sql.SQL(", ").join(map(sql.Identifier, columns)), sql.SQL(direction)
    )


def read_revision(connection: Connection, tables: Mapping[str, object]) -> str | None:
    """Return the revision of the schema; None where there is none."""
    if VERSION_TABLE not in tables:
        return None
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return None if row is None else str(row[0])


def has_rows(connection: Connection, name: str) -> bool:
    """Return whether a table has a row."""
    query = sql.SQL("SELECT EXISTS (SELECT FROM {})").format(sql.Identifier(name))
    row = connection.execute(query).fetchone()
    return row is not None and bool(row[0])


def get_reason(error: Exception) -> str:
    """Return what Postgres says of an error, without where and how."""
    return str(getattr(error, "orig", error)).partition("\n")[0]
