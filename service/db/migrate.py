"""Migrations as functions: they work from an installed package, in any directory, without a configuration file."""

import io
from functools import cache
from importlib.resources import files

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine

from service.runtime.settings import psycopg_url


def upgrade(database_url: str, revision: str = "head") -> None:
    """Bring the schema to ``revision``; any number of processes may call this at once."""
    command.upgrade(alembic_config(database_url), revision)


def downgrade(database_url: str, revision: str) -> None:
    """Take the schema back to ``revision``; ``base`` is the empty database."""
    command.downgrade(alembic_config(database_url), revision)


def alembic_config(database_url: str | None = None) -> Config:
    """Return Alembic's configuration for the migrations that are installed beside this package."""
    scripts = str(files("migrations"))
    config = Config(stdout=io.StringIO())
    # Alembic reads options as ConfigParser does, where % starts an interpolation.
    config.set_main_option("script_location", scripts.replace("%", "%%"))
    if database_url is not None:
        config.attributes["database_url"] = psycopg_url("DATABASE_URL", database_url)
    return config


@cache
def head_revision() -> str | None:
    """Return the newest revision that this program knows; it cannot change while the program runs."""
    return ScriptDirectory.from_config(alembic_config()).get_current_head()


def current_revision(engine: Engine) -> str | None:
    """Return the revision that the database is at, ``None`` when it is empty."""
    with engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def is_at_head(engine: Engine) -> bool:
    """Tell whether the database has exactly the schema that this program expects."""
    return current_revision(engine) == head_revision()


def is_served(engine: Engine) -> bool:
    """Tell whether this program works with the database: at its schema, or at that of a later version.

    Migrations only add, so that API processes of the version before go on while the next one is rolled out; their names are
    numbers, and a later one is greater.
    """
    current, head = current_revision(engine), head_revision()
    return current is not None and head is not None and current >= head
