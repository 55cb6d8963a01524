"""A test's database is its own: what another one left in it is never seen."""

import psycopg
import pytest

from service.db.migrate import get_head_revision
from tests.servers import Databases

ROW = "INSERT INTO retired_models (name, last_revision) VALUES ('left-behind', 1)"


def read_identity(url: str) -> object:
    """Return what a database is, whatever its name."""
    with psycopg.connect(url) as connection:
        return connection.execute(
            "SELECT oid FROM pg_database WHERE datname = current_database()"
        ).fetchone()


def count_rows(url: str) -> int:
    """Return the number of rows in all tables but the revision's."""
    with psycopg.connect(url) as connection:
        tables = connection.execute(
            "SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' AND relnamespace = "
            "'public'::regnamespace AND relname <> 'alembic_version'"
        ).fetchall()
        assert len(tables) > 10
        return sum(
            row[0]
            for (table,) in tables
            for row in connection.execute(f"SELECT count(*) FROM {table}")  # noqa: S608 - of the catalogue
        )


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE left_behind ()",
        "ALTER TABLE models ADD COLUMN left_behind int",
        "ALTER TABLE measurements DROP CONSTRAINT ck_measurements_state",
        "UPDATE alembic_version SET version_num = 'r9999'",
        "CREATE FUNCTION left_behind() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "GRANT SELECT ON models TO public",
    ],
)
def test_another_schema_is_nobody_elses(databases: Databases, change: str) -> None:
    """Whoever changes more than rows is the last one in that database."""
    with databases.lend() as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute(change)
        changed = read_identity(url)

    with databases.lend() as following, psycopg.connect(following) as connection:
        revision = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        other = read_identity(following)

    assert other != changed
    assert revision == (get_head_revision(),)


def test_a_database_comes_back_empty(databases: Databases) -> None:
    """Rows go, whoever is still connected is sent away, and its address leads nowhere."""
    with databases.lend() as url:
        forgotten = psycopg.connect(url, autocommit=True)
        forgotten.execute(ROW)
        seen = count_rows(url), read_identity(url)

    with databases.lend() as following:
        remaining = count_rows(following), read_identity(following)

    assert (seen[0], remaining[0]) == (1, 0)
    assert remaining[1] == seen[1]
    for use in (lambda: forgotten.execute("SELECT 1"), lambda: psycopg.connect(url)):
        with pytest.raises(psycopg.OperationalError):
            use()
    forgotten.close()
