"""Bring the database at DATABASE_URL to this version's schema; any number of processes may do so at
once.
"""

import argparse
import os

from alembic.util import CommandError
from sqlalchemy.exc import OperationalError

from service.base.startup_errors import StartupError
from service.db.migrate import get_head_revision, upgrade
from service.runtime.logs import configure, get_logger
from service.runtime.settings import Settings


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Add nothing: the environment names the database."""


def run(_options: argparse.Namespace) -> int:
    """Upgrade to the newest revision."""
    settings = Settings.from_env(os.environ)
    configure(level=settings.log_level, log_format=settings.log_format)
    try:
        upgrade(settings.require_database_url())
    except OperationalError as error:
        first_line = str(error.orig).partition("\n")[0]
        message = f"the database at DATABASE_URL could not be migrated: {first_line}"
        raise StartupError(message) from error
    except CommandError as error:
        # Alembic's own words speak of its files.
        message = (
            f"the database at DATABASE_URL is at a schema that this version ({get_head_revision()} "
            "at the latest) does not know: a later version has migrated it; install that one, or "
            "restore a backup"
        )
        raise StartupError(message) from error
    get_logger("migrate").info("database.migrated")
    return 0
