"""A backup of a database while it is used."""

import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import psycopg
from psycopg import IsolationLevel, sql

from service.db.backups.archive import FORMAT, MANIFEST, BackedUpTable, BackupError, Manifest
from service.db.backups.catalog import (
    LOCK_TIMEOUT_S,
    VERSION_TABLE,
    Connection,
    connect,
    get_reason,
    list_tables,
    make_copy,
    read_revision,
)
from service.db.migrate import MIGRATION_LOCK

_BATCH_BYTES = 2**20
# Four fifths of what the best level saves, in a third of its time.
_LEVEL = 1
OnRows = Callable[[str, int], None]
"""Called with a table and how many of its rows are done."""


def save(database_url: str, path: Path, *, version: str, on_rows: OnRows) -> Manifest:
    """Write a database as of one moment to a new file.

    The file appears under its name once it is whole.
    """
    if path.exists():
        message = f"{path} is there already; name another file, or remove it first"
        raise BackupError(message)
    try:
        with connect(database_url) as connection, _create(path) as archive:
            _hold_schema(connection)
            connection.isolation_level = IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            return _save_tables(connection, archive, version=version, on_rows=on_rows)
    except psycopg.Error as error:
        message = f"{path} was not written: {get_reason(error)}"
        raise BackupError(message) from error


def _hold_schema(connection: Connection) -> None:
    """Keep migrations and restores waiting until the connection closes.

    Before the transaction, which sees the schema of its first statement.
    """
    connection.autocommit = True
    connection.execute(f"SET lock_timeout = '{LOCK_TIMEOUT_S}s'")
    try:
        connection.execute("SELECT pg_advisory_lock_shared(%s)", (MIGRATION_LOCK,))
    except psycopg.errors.LockNotAvailable as error:
        message = "the database is being migrated or restored; try again once that is over"
        raise BackupError(message) from error
    connection.autocommit = False


def _save_tables(
    connection: Connection, archive: zipfile.ZipFile, *, version: str, on_rows: OnRows
) -> Manifest:
    tables = _lock_tables(connection)
    schema = read_revision(connection, tables)
    if schema is None:
        message = "there is nothing to back up: the database has no schema of Headroom"
        raise BackupError(message)
    saved = [
        _save_table(connection, archive, name, columns, on_rows)
        for name, columns in tables.items()
        if name != VERSION_TABLE
    ]
    manifest = Manifest(
        format=FORMAT,
        headroom=version,
        schema=schema,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        tables=saved,
    )
    archive.writestr(MANIFEST, msgspec.json.encode(manifest))
    return manifest


def _lock_tables(connection: Connection) -> dict[str, list[str]]:
    """Return the tables, whose schema stays until the transaction ends.

    Reading and writing goes on; a migration waits.
    """
    for table in list_tables(connection):
        connection.execute(
            sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(sql.Identifier(table))
        )
    return list_tables(connection)


def _save_table(
    connection: Connection,
    archive: zipfile.ZipFile,
    name: str,
    columns: list[str],
    on_rows: OnRows,
) -> BackedUpTable:
    num_rows = 0
    table = BackedUpTable(name=name, columns=columns, num_rows=0)
    with (
        connection.cursor() as cursor,
        cursor.copy(make_copy(name, columns, "TO STDOUT")) as copy,
        archive.open(table.member, "w", force_zip64=True) as member,
    ):
        batch = bytearray()
        for row in copy:
            batch += row
            num_rows += 1
            if len(batch) >= _BATCH_BYTES:
                member.write(batch)
                batch.clear()
                on_rows(name, num_rows)
        member.write(batch)
    on_rows(name, num_rows)
    return msgspec.structs.replace(table, num_rows=num_rows)


@contextmanager
def _create(path: Path) -> Iterator[zipfile.ZipFile]:
    """Write a private file that gets its name at the end."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor has no path
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
                yield archive
            file.flush()
            os.fsync(file.fileno())
        _give_name(draft, path)
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror or error}"
        raise BackupError(message) from error
    finally:
        draft.unlink(missing_ok=True)


def _give_name(draft: Path, path: Path) -> None:
    """Give a file its name, which must be nobody's."""
    try:
        # Unlike a rename this replaces nothing that came meanwhile.
        path.hardlink_to(draft)
    except FileExistsError:
        raise
    except OSError:
        # FAT, SMB and others have no such links: there the name is taken first.
        path.touch(0o600, exist_ok=False)
        draft.replace(path)
