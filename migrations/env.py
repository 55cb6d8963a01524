"""Alembic's entry point.

There is one migrator at a time, one transaction per migration, and every wait for a lock has an
end.
"""

import os

from alembic import context
from sqlalchemy import Connection, Engine, NullPool, create_engine, text

from service.db.migrate import MIGRATION_LOCK
from service.db.tables.core import SCHEMA
from service.runtime.settings import Settings

QUEUE_TIMEOUT_S = 60
LOCK_TIMEOUT_S = 5


def _database_url() -> str:
    given: str | None = context.config.attributes.get("database_url")
    return given or Settings.from_env(os.environ).require_database_url()


def _print_sql() -> None:
    context.configure(
        url=_database_url(),
        target_metadata=SCHEMA,
        literal_binds=True,
        transaction_per_migration=True,
        compare_type=True,
    )
    with context.begin_transaction():
        context.run_migrations()


def _migrate(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=SCHEMA,
        compare_type=True,
        compare_server_default=True,
        transaction_per_migration=True,
    )
    with context.begin_transaction():
        context.run_migrations()


def _migrate_alone(connection: Connection) -> None:
    """Migrate under an advisory lock of the session.

    The lock outlives the transactions of the single migrations.
    """
    # lock_timeout bounds the wait for advisory locks as well, so it is set twice.
    connection.execute(text(f"SET lock_timeout = '{QUEUE_TIMEOUT_S}s'"))
    connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": MIGRATION_LOCK})
    connection.execute(text(f"SET lock_timeout = '{LOCK_TIMEOUT_S}s'"))
    connection.commit()
    try:
        _migrate(connection)
    finally:
        connection.rollback()
        connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": MIGRATION_LOCK})
        connection.commit()


def _run(given: Connection | Engine | None) -> None:
    match given:
        case Connection():
            # A transaction that the caller has begun stays his to end, and so do locks.
            _migrate(given)
        case Engine():
            with given.connect() as connection:
                _migrate_alone(connection)
        case None:
            with create_engine(_database_url(), poolclass=NullPool).connect() as connection:
                _migrate_alone(connection)


if context.is_offline_mode():
    _print_sql()
else:
    _run(context.config.attributes.get("connection"))
