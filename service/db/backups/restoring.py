"""A database from a backup, all of it or nothing."""

import zipfile
from pathlib import Path
from time import monotonic, sleep

import psycopg
from psycopg import sql
from sqlalchemy import Connection as SqlConnection
from sqlalchemy import NullPool, create_engine, text
from sqlalchemy.exc import DBAPIError

from service.db.backups.archive import (
    BackedUpTable,
    BackupError,
    Manifest,
    open_archive,
    read_manifest,
)
from service.db.backups.catalog import (
    LOCK_TIMEOUT_S,
    VERSION_TABLE,
    Connection,
    get_reason,
    has_rows,
    list_tables,
    make_copy,
    read_revision,
)
from service.db.backups.saving import OnRows
from service.db.migrate import MIGRATION_LOCK, list_revisions, upgrade_within
from service.db.tables.core import SCHEMA
from service.runtime.variables import parse_psycopg_url

_BATCH_BYTES = 2**20
_REPORTING = "headroom_reporting"
_LEAVING_S = 2.0
_LOOK_S = 0.05
_OTHERS = """
SELECT DISTINCT application_name FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name LIKE 'headroom%'
"""


def restore(database_url: str, path: Path, *, replace: bool, on_rows: OnRows) -> Manifest:
    """Fill a database from a backup, at this version's schema.

    One transaction: after a failure the database is as it was. ``replace`` deletes what it holds.
    """
    url = parse_psycopg_url("DATABASE_URL", database_url)
    engine = create_engine(
        url, poolclass=NullPool, connect_args={"application_name": "headroom-restore"}
    )
    with open_archive(path) as archive:
        manifest = read_manifest(archive)
        _require_known(manifest, path)
        try:
            with engine.begin() as connection:
                _restore(connection, archive, manifest, replace=replace, on_rows=on_rows)
        except (DBAPIError, psycopg.Error, zipfile.BadZipFile) as error:
            message = f"{path} was not restored, and the database is as it was: {get_reason(error)}"
            raise BackupError(message) from error
    return manifest


def _restore(
    connection: SqlConnection,
    archive: zipfile.ZipFile,
    manifest: Manifest,
    *,
    replace: bool,
    on_rows: OnRows,
) -> None:
    connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT_S}s'"))
    connection.execute(text(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"))
    driver = _get_driver_connection(connection)
    _require_unused(driver)
    _make_empty(driver, replace=replace)
    upgrade_within(connection, manifest.schema)
    tables = list_tables(driver)
    for table in manifest.tables:
        if tables.get(table.name) != table.columns:
            message = f"table {table.name} of the backup is not that of schema {manifest.schema}"
            raise BackupError(message)
        _load_table(driver, archive, table, on_rows)
    upgrade_within(connection, "head")


def _require_known(manifest: Manifest, path: Path) -> None:
    revisions = list_revisions()
    if manifest.schema in revisions:
        return
    message = (
        f"{path} was made by Headroom {manifest.headroom} at schema {manifest.schema}, and this "
        f"version knows {revisions[-1]} at the latest; install that version, and restore with it"
    )
    raise BackupError(message)


def _require_unused(connection: Connection) -> None:
    """Refuse while others use the database.

    A server takes a moment to notice that a client has left: those that leave are waited for.
    """
    deadline = monotonic() + _LEAVING_S
    while clients := [str(name) for (name,) in connection.execute(_OTHERS)]:
        if monotonic() > deadline:
            message = f"the database is in use by {', '.join(sorted(clients))}; stop them first"
            raise BackupError(message)
        sleep(_LOOK_S)
        # What a transaction has seen of others stays as it was.
        connection.execute("SELECT pg_stat_clear_snapshot()")


def _make_empty(connection: Connection, *, replace: bool) -> None:
    """Drop tables without rows; those with rows where that was said."""
    tables = list_tables(connection)
    if not tables:
        return
    schema = read_revision(connection, tables)
    _refuse_strangers(set(tables) - {*SCHEMA.tables, VERSION_TABLE}, schema, replace=replace)
    full = [name for name in tables if name != VERSION_TABLE and has_rows(connection, name)]
    if full and not replace:
        message = (
            f"the database is not empty (schema {schema}, rows in {', '.join(sorted(full)[:5])}); "
            "restore into an empty one, or say --replace to delete what is there"
        )
        raise BackupError(message)
    connection.execute(f"DROP SCHEMA IF EXISTS {_REPORTING} CASCADE")
    for name in tables:
        connection.execute(sql.SQL("DROP TABLE {} CASCADE").format(sql.Identifier(name)))


def _refuse_strangers(unknown: set[str], schema: str | None, *, replace: bool) -> None:
    """Refuse to delete tables that this version does not know.

    A later version's schema has some of its own, which go where it is to be replaced.
    """
    is_later = schema is not None and schema not in list_revisions()
    if not unknown or (is_later and replace):
        return
    names = ", ".join(sorted(unknown)[:5])
    message = (
        f"the database is of a later version (schema {schema}, with {names}); restore into an "
        "empty one, or say --replace to delete every table that is there"
        if is_later
        else f"the database holds tables that this version does not know ({names}); restore into "
        "an empty one: createdb headroom"
    )
    raise BackupError(message)


def _load_table(
    connection: Connection, archive: zipfile.ZipFile, table: BackedUpTable, on_rows: OnRows
) -> None:
    num_rows = 0
    with (
        connection.cursor() as cursor,
        cursor.copy(make_copy(table.name, table.columns, "FROM STDIN")) as copy,
        archive.open(table.member) as member,
    ):
        while batch := member.read(_BATCH_BYTES):
            copy.write(batch)
            # COPY writes a row as one line: a line feed within it is escaped.
            num_rows += batch.count(b"\n")
            on_rows(table.name, num_rows)
    if num_rows != table.num_rows:
        message = f"table {table.name} of the backup has {num_rows} rows, not {table.num_rows}"
        raise BackupError(message)
    on_rows(table.name, num_rows)


def _get_driver_connection(connection: SqlConnection) -> Connection:
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)  # noqa: S101 - the URL says so
    return driver
