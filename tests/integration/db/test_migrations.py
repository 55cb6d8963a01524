"""The migrations build exactly the schema that the tables describe, from anywhere, and take it
back.
"""

import io
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, text

from service.db.migrate import (
    downgrade,
    get_head_revision,
    is_compatible,
    make_alembic_config,
    read_current_revision,
    upgrade,
)
from service.db.tables.core import SCHEMA
from service.runtime.variables import parse_psycopg_url

CONSTRAINTS = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = 'public'::regnamespace AND conrelid::regclass::text <> 'alembic_version' ORDER BY 1, 2
"""  # noqa: E501
INDEXES = (
    "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename <> "
    "'alembic_version' ORDER BY 1"
)
COLUMNS = """
SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns
WHERE table_schema = 'public' AND table_name <> 'alembic_version' ORDER BY 1, 2
"""  # noqa: E501
TAUGHT_PREFILL = """
WITH job AS (
    INSERT INTO measurements (id, device, request, key, deadline_at)
    VALUES (gen_random_uuid(), 'cuda', '{}', 'k', now()) RETURNING id
), calibration AS (
    INSERT INTO calibrations (id, key, quantity, scope, correction, evidence)
    SELECT gen_random_uuid(), 'k', 'prefill_time', '{}', '{}', ARRAY[id] FROM job RETURNING id
)
INSERT INTO measurement_results
    (job_id, attempt, environment, peaks, instants, probes, extrapolated, calibration_id)
SELECT job.id, 1, '{}', '{}', '[]', '[]', false, calibration.id FROM job, calibration
"""
WAITING_REVISIONS = """
WITH job AS (
    INSERT INTO measurements (id, device, request, key, deadline_at, source)
    VALUES (gen_random_uuid(), 'trace', '{}', 'k', now(), 'recording') RETURNING id
), config AS (
    INSERT INTO config_recordings (config_digest, job_id)
    SELECT repeat('0', 64), id FROM job RETURNING config_digest
), model AS (
    INSERT INTO models (id, name, current_revision)
    VALUES (gen_random_uuid(), 'then-waiting', 2), (gen_random_uuid(), 'then-ready', 2),
        (gen_random_uuid(), 'waiting', 2) RETURNING id, name
)
INSERT INTO model_revisions
    (id, model_id, number, source, architecture, family, fingerprint, num_parameters,
    num_active_parameters, num_embedding_parameters, parameters_by_module, config_digest)
SELECT gen_random_uuid(), model.id, number, '{}', '{}', 'f', '', 0, 0, 0, '{}',
    CASE WHEN (name, number) IN (('then-waiting', 1), ('then-ready', 2)) THEN NULL
    ELSE config_digest END
FROM model, config, generate_series(1, 2) AS number
"""


def schema_of(url: str) -> Sequence[tuple[object, ...]]:
    """Return every column, constraint and index of a database, as Postgres tells them."""
    with psycopg.connect(url) as connection:
        return [
            row
            for query in (COLUMNS, CONSTRAINTS, INDEXES)
            for row in connection.execute(query).fetchall()
        ]


def test_there_is_one_head() -> None:
    """Two people who add a migration at once find out here."""
    heads = ScriptDirectory.from_config(make_alembic_config()).get_heads()

    assert heads == [get_head_revision()]


def test_tables_and_migrations_agree(database_url: str) -> None:
    """`alembic check` finds nothing to add to the migrated schema; it raises when it does."""
    command.check(make_alembic_config(database_url))


def test_migrations_build_what_the_tables_say(database_url: str, empty_database_url: str) -> None:
    """Checks and partial indexes, which `alembic check` does not compare, are the same too."""
    engine = create_engine(parse_psycopg_url("DATABASE_URL", empty_database_url))
    SCHEMA.create_all(engine)
    engine.dispose()

    migrated, described = schema_of(database_url), schema_of(empty_database_url)

    assert len(described) > 100
    assert migrated == described


def test_every_step_can_be_taken_back_and_taken_again(empty_database_url: str) -> None:
    """Each migration goes up, down to the one before, and up again; base is an empty database."""
    for script in reversed(
        list(ScriptDirectory.from_config(make_alembic_config()).walk_revisions())
    ):
        upgrade(empty_database_url, script.revision)
        built = schema_of(empty_database_url)
        downgrade(empty_database_url, str(script.down_revision or "base"))
        upgrade(empty_database_url, script.revision)

        assert schema_of(empty_database_url) == built

    downgrade(empty_database_url, "base")

    assert schema_of(empty_database_url) == []


def test_prefill_times_are_forgotten_with_their_references(empty_database_url: str) -> None:
    """The schema before knows no such quantity: a result that taught one is kept without it."""
    upgrade(empty_database_url, "r0011")
    with psycopg.connect(empty_database_url) as connection:
        connection.execute(TAUGHT_PREFILL)

    downgrade(empty_database_url, "r0010")

    with psycopg.connect(empty_database_url) as connection:
        results = connection.execute("SELECT calibration_id FROM measurement_results").fetchall()
        calibrations = connection.execute("SELECT id FROM calibrations").fetchall()
    assert (results, calibrations) == ([(None,)], [])


def test_only_revisions_that_wait_for_a_recording_are_taken_back(empty_database_url: str) -> None:
    """A model keeps the revisions whose architecture is known; one that has none goes."""
    upgrade(empty_database_url, "r0014")
    with psycopg.connect(empty_database_url) as connection:
        connection.execute(WAITING_REVISIONS)

    downgrade(empty_database_url, "r0013")

    with psycopg.connect(empty_database_url) as connection:
        kept = connection.execute("SELECT name, current_revision FROM models ORDER BY 1").fetchall()
    assert kept == [("then-ready", 2), ("then-waiting", 1)]


def test_head_is_told_from_empty_and_from_older(empty_database_url: str) -> None:
    """Readiness asks whether the schema has all that this program needs."""
    engine = create_engine(parse_psycopg_url("DATABASE_URL", empty_database_url))
    found = []
    for step in (None, "r0001", "head"):
        if step is not None:
            upgrade(empty_database_url, step)
        found.append((read_current_revision(engine), is_compatible(engine)))
    engine.dispose()

    assert found == [(None, False), ("r0001", False), (get_head_revision(), True)]


def test_migrators_queue(empty_database_url: str) -> None:
    """Replicas that start together all find the database migrated and none fails."""
    with ThreadPoolExecutor(4) as threads:
        subprocesses = list(threads.map(migrate_in_a_process, [empty_database_url] * 4))

    assert [process.returncode for process in subprocesses] == [0] * 4, [
        process.stderr for process in subprocesses
    ]
    engine = create_engine(parse_psycopg_url("DATABASE_URL", empty_database_url))
    with engine.connect() as connection:
        locks = connection.execute(
            text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
        ).scalar_one()
    assert read_current_revision(engine) == get_head_revision()
    engine.dispose()
    assert locks == 0


def test_migrations_need_no_working_directory(empty_database_url: str, tmp_path: Path) -> None:
    """An installed package migrates from an empty directory, without a configuration file."""
    process = migrate_in_a_process(empty_database_url, cwd=tmp_path)

    assert process.returncode == 0, process.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_given_connection_is_used(empty_database_url: str) -> None:
    """Migrations run on the caller's connection, in his transaction: his rollback takes them
    back.
    """
    engine = create_engine(parse_psycopg_url("DATABASE_URL", empty_database_url))
    config = make_alembic_config()
    with engine.connect() as connection, connection.begin() as transaction:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        transaction.rollback()
    found = read_current_revision(engine)
    engine.dispose()

    assert found is None


def test_the_sql_can_be_printed(empty_database_url: str) -> None:
    """Somebody who may not run programs on a database gets the statements instead."""
    config = make_alembic_config(empty_database_url)
    config.output_buffer = io.StringIO()
    command.upgrade(config, "head", sql=True)

    assert "CREATE TABLE measurements" in config.output_buffer.getvalue()
    assert schema_of(empty_database_url) == []


def migrate_in_a_process(url: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Migrate in a fresh interpreter, as a starting replica does."""
    program = "import sys; from service.db.migrate import upgrade; upgrade(sys.argv[1])"
    environ = {"PATH": os.defpath, "PYTHONPATH": str(Path(__file__).parents[3])}
    return subprocess.run(
        [sys.executable, "-c", program, url],
        cwd=cwd,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
