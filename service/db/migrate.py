"""Migrations as functions.

They work from an installed package, in any directory, without a configuration file.
"""

import io
from functools import cache
from importlib.resources import files

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine

from service.runtime.variables import parse_psycopg_url

MIGRATION_LOCK = 0x4845_4144_524F_4F4D
"""Key of the advisory lock that migrators queue on: the letters HEADROOM.

A backup shares it, and a restore holds it: they lock many tables, in another order.
"""


def upgrade(database_url: str, revision: str = "head") -> None:
    """Upgrade the schema to ``revision``.

    Any number of processes may call this at once.
    """
    command.upgrade(make_alembic_config(database_url), revision)


def upgrade_within(connection: Connection, revision: str) -> None:
    """Upgrade the schema in the caller's transaction, which stays his to end."""
    config = make_alembic_config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def list_revisions() -> list[str]:
    """Return the revisions that this program knows, oldest first."""
    scripts = ScriptDirectory.from_config(make_alembic_config())
    return [script.revision for script in scripts.walk_revisions()][::-1]


def downgrade(database_url: str, revision: str) -> None:
    """Downgrade the schema to ``revision``.

    ``base`` is the empty database.
    """
    command.downgrade(make_alembic_config(database_url), revision)


def make_alembic_config(database_url: str | None = None) -> Config:
    """Return Alembic's configuration for the installed migrations."""
    scripts = str(files("migrations"))
    config = Config(stdout=io.StringIO())
    # Alembic reads options as ConfigParser does, where % starts an interpolation.
    config.set_main_option("script_location", scripts.replace("%", "%%"))
    config.set_main_option("recursive_version_locations", "true")
    if database_url is not None:
        config.attributes["database_url"] = parse_psycopg_url("DATABASE_URL", database_url)
    return config


@cache
def get_head_revision() -> str | None:
    """Return the newest revision that this program knows.

    It cannot change while the program runs.
    """
    return ScriptDirectory.from_config(make_alembic_config()).get_current_head()


def read_current_revision(engine: Engine) -> str | None:
    """Return the database's revision, ``None`` when it is empty."""
    with engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def is_compatible(engine: Engine) -> bool:
    """Return whether this program works with the database's schema.

    The schema is its own, or that of a later version.

    Migrations only add, so that API processes of the version before go on while the next one is
    rolled out; their names are numbers, and a later one is greater.
    """
    current, head = read_current_revision(engine), get_head_revision()
    return current is not None and head is not None and current >= head
