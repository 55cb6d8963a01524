"""A backup holds every row, and comes back whole or not at all."""

import errno
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from threading import Timer

import psycopg
import pytest
from psycopg import sql

from service.cli.commands.database.places import make_progress
from service.db.backups import saving
from service.db.backups.archive import BackupError
from service.db.backups.restoring import restore
from service.db.backups.saving import save
from service.db.migrate import MIGRATION_LOCK, downgrade, get_head_revision, upgrade
from service.db.tables.core import SCHEMA
from tests.integration.db.rows import fill_every_table
from tests.servers import fresh_database

Rows = dict[str, list[str]]
SHOW = make_progress()


@pytest.fixture(scope="module")
def backup(
    postgres_server: str, migrated_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, Rows]]:
    """Return a backup of a database with rows in every table, and these rows."""
    path = tmp_path_factory.mktemp("backups") / "headroom.zip"
    with fresh_database(postgres_server, migrated_template) as url:
        fill_every_table(url)
        save(url, path, version="1.2.3", on_rows=SHOW)
        yield path, read_rows(url)


def read_rows(url: str) -> Rows:
    """Return every row of every table, as Postgres writes it, in order."""
    with psycopg.connect(url) as connection:
        return {
            name: [
                str(row)
                for (row,) in connection.execute(
                    sql.SQL("SELECT t::text FROM {} AS t ORDER BY 1").format(sql.Identifier(name))
                )
            ]
            for name in [*SCHEMA.tables, "alembic_version"]
        }


def test_every_row_of_every_table_comes_back(
    backup: tuple[Path, Rows], empty_database_url: str
) -> None:
    """As Postgres writes it, row by row; the file is its owner's alone."""
    path, rows = backup
    manifest = restore(empty_database_url, path, replace=False, on_rows=SHOW)

    assert all(rows.values()), [name for name, found in rows.items() if not found]
    assert read_rows(empty_database_url) == rows
    assert (manifest.headroom, manifest.schema) == ("1.2.3", get_head_revision())
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_no_table_counts_beside_its_rows(database_url: str) -> None:
    """There is no sequence, whose value a backup would have to hold too."""
    with psycopg.connect(database_url) as connection:
        found = connection.execute("SELECT relname FROM pg_class WHERE relkind = 'S'").fetchall()

    assert found == []


def test_a_backup_of_an_older_schema_is_migrated(
    empty_database_url: str, database_url: str, tmp_path: Path
) -> None:
    """What it holds is there, under this version's schema."""
    upgrade(empty_database_url, "r0014")
    with psycopg.connect(empty_database_url) as connection:
        connection.execute("INSERT INTO retired_models (name, last_revision) VALUES ('old', 7)")
    save(empty_database_url, tmp_path / "old.zip", version="0.1.0", on_rows=SHOW)
    restore(database_url, tmp_path / "old.zip", replace=False, on_rows=SHOW)
    rows = read_rows(database_url)

    assert rows["retired_models"] == ["(old,7)"]
    assert rows["alembic_version"] == [f"({get_head_revision()})"]


def test_a_database_that_is_not_empty_is_left_alone_unless_told(
    backup: tuple[Path, Rows], database_url: str
) -> None:
    """The refusal names what is there; with the word it goes, and the backup comes."""
    path, rows = backup
    with psycopg.connect(database_url) as connection:
        connection.execute("INSERT INTO retired_models (name, last_revision) VALUES ('mine', 1)")

    with pytest.raises(BackupError, match=r"rows in retired_models.*--replace"):
        restore(database_url, path, replace=False, on_rows=SHOW)
    assert read_rows(database_url)["retired_models"] == ["(mine,1)"]
    restore(database_url, path, replace=True, on_rows=SHOW)
    assert read_rows(database_url) == rows


def test_a_backup_of_a_later_schema_is_refused(
    backup: tuple[Path, Rows], empty_database_url: str, tmp_path: Path
) -> None:
    """It says which version has to be installed, and nothing is written."""
    later = tmp_path / "later.zip"
    rewrite(backup[0], later, b'"schema":"r0', b'"schema":"r9')

    with pytest.raises(BackupError, match=r"by Headroom 1\.2\.3 at schema r9.*install that"):
        restore(empty_database_url, later, replace=False, on_rows=SHOW)
    assert_empty(empty_database_url)


def test_a_changed_row_leaves_the_database_as_it_was(
    backup: tuple[Path, Rows], database_url: str, tmp_path: Path
) -> None:
    """Whatever is wrong in the middle of a restore, what was there before is there after it."""
    broken = tmp_path / "broken.zip"
    rewrite(backup[0], broken, b"\tcpu\t", b"\tgpu\t")
    with psycopg.connect(database_url) as connection:
        connection.execute("INSERT INTO retired_models (name, last_revision) VALUES ('mine', 1)")
    before = read_rows(database_url)

    with pytest.raises(BackupError, match="was not restored, and the database is as it was"):
        restore(database_url, broken, replace=True, on_rows=SHOW)
    assert read_rows(database_url) == before


@pytest.mark.parametrize("size", [0, 100, -100])
def test_a_file_that_is_cut_is_refused(
    backup: tuple[Path, Rows], empty_database_url: str, tmp_path: Path, size: int
) -> None:
    """Its beginning alone is no backup, nor is nothing."""
    cut = tmp_path / "cut.zip"
    cut.write_bytes(backup[0].read_bytes()[:size])

    with pytest.raises(BackupError, match="is no backup of Headroom, or only its beginning"):
        restore(empty_database_url, cut, replace=False, on_rows=SHOW)
    assert_empty(empty_database_url)


def test_a_file_that_is_there_is_not_overwritten(database_url: str, tmp_path: Path) -> None:
    """Nor is a database without a schema worth a file."""
    there = tmp_path / "there.zip"
    there.write_bytes(b"mine")
    downgrade(database_url, "base")

    with pytest.raises(BackupError, match="is there already"):
        save(database_url, there, version="1", on_rows=SHOW)
    with pytest.raises(BackupError, match="nothing to back up"):
        save(database_url, tmp_path / "new.zip", version="1", on_rows=SHOW)
    assert [file.name for file in tmp_path.iterdir()] == ["there.zip"]


def test_a_database_in_use_is_not_restored_into(
    backup: tuple[Path, Rows], empty_database_url: str
) -> None:
    """A worker that writes meanwhile would write into another's rows."""
    with (
        psycopg.connect(empty_database_url, application_name="headroom-worker"),
        pytest.raises(BackupError, match="in use by headroom-worker; stop them first"),
    ):
        restore(empty_database_url, backup[0], replace=False, on_rows=SHOW)


def test_a_client_that_leaves_is_waited_for(
    backup: tuple[Path, Rows], empty_database_url: str
) -> None:
    """The server tells of a client for a moment after it has gone."""
    client = psycopg.connect(empty_database_url, application_name="headroom-restore")
    leaving = Timer(0.1, client.close)
    leaving.start()

    restore(empty_database_url, backup[0], replace=False, on_rows=SHOW)

    leaving.join()


@pytest.mark.parametrize("schema", ["r9999", None])
def test_tables_of_a_later_version_go_only_with_the_word(
    backup: tuple[Path, Rows], database_url: str, schema: str | None
) -> None:
    """Who goes back to an older version says so; tables of somebody else are never deleted."""
    path, rows = backup
    with psycopg.connect(database_url) as connection:
        connection.execute("CREATE TABLE notes (id int)")
        if schema is not None:
            connection.execute("UPDATE alembic_version SET version_num = %s", (schema,))

    with pytest.raises(BackupError, match="notes"):
        restore(database_url, path, replace=False, on_rows=SHOW)
    if schema is None:
        with pytest.raises(BackupError, match=r"tables that this version does not know \(notes\)"):
            restore(database_url, path, replace=True, on_rows=SHOW)
    else:
        restore(database_url, path, replace=True, on_rows=SHOW)
        assert read_rows(database_url) == rows


def test_a_backup_beside_a_migration_waits_or_says_so(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both lock many tables, in another order."""
    monkeypatch.setattr(saving, "LOCK_TIMEOUT_S", 0.01)
    with psycopg.connect(database_url) as migrator:
        migrator.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))

        with pytest.raises(BackupError, match="being migrated or restored; try again"):
            save(database_url, tmp_path / "new.zip", version="1", on_rows=SHOW)
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_goes_away_leaves_a_sentence_and_no_file(
    database_url: str, tmp_path: Path
) -> None:
    """An operator ends the session between two tables."""

    def end_session(_table: str, _num_rows: int) -> None:
        with psycopg.connect(database_url) as operator:
            operator.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                "WHERE datname = current_database() AND application_name = 'headroom-backup'"
            )

    with pytest.raises(BackupError, match="was not written: terminating connection"):
        save(database_url, tmp_path / "new.zip", version="1", on_rows=end_session)

    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_hard_links_takes_a_backup(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FAT and SMB have none; a file that is there is not overwritten there either."""
    path = tmp_path / "new.zip"
    monkeypatch.setattr(Path, "hardlink_to", refuse_link)

    save(database_url, path, version="1", on_rows=SHOW)

    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["new.zip"]
    assert zipfile.is_zipfile(path)


def refuse_link(_path: Path, _target: Path) -> None:
    """Refuse as link(2) does where there are no hard links."""
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


def rewrite(source: Path, target: Path, old: bytes, new: bytes) -> None:
    """Copy an archive with other bytes in its members."""
    with zipfile.ZipFile(source) as archive, zipfile.ZipFile(target, "w") as changed:
        for name in archive.namelist():
            changed.writestr(name, archive.read(name).replace(old, new))


def assert_empty(url: str) -> None:
    """Assert that a database has no table."""
    with psycopg.connect(url) as connection:
        assert (
            connection.execute(
                "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
            ).fetchall()
            == []
        )
