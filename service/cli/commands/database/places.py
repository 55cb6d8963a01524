"""The database of a backup: at DATABASE_URL, or in a data directory."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from service.base.startup_errors import StartupError
from service.embedded.datadir import find_used_data_dir
from service.embedded.postgres import build_postgres_url, run_postgres
from service.runtime.settings import Settings

_EVERY_S = 2.0


def add_place(parser: argparse.ArgumentParser) -> None:
    """Add the file and the data directory."""
    parser.add_argument("file", type=Path, metavar="FILE", help="the backup")
    parser.add_argument(
        "--data-dir",
        type=Path,
        help="of `headroom up`, where DATABASE_URL is not set (default HEADROOM_DATA_DIR or the "
        "user's data)",
    )


@contextmanager
def open_database(options: argparse.Namespace, *, may_run: bool) -> Iterator[str]:
    """Yield the URL of the database that is meant.

    That of a data directory is started for the block, where `headroom up` does not run it; where it
    does and ``may_run`` is false, it is refused.
    """
    settings = Settings.from_env(os.environ)
    if options.data_dir is None and settings.database_url is not None:
        yield settings.database_url
        return
    root = options.data_dir or settings.data_dir
    if may_run and not (root / "postgres" / "PG_VERSION").exists():
        message = f"there is no database in {root}; set DATABASE_URL, or name its --data-dir"
        raise StartupError(message)
    used = find_used_data_dir(root) if may_run else None
    if used is not None:
        yield build_postgres_url(used)
        return
    with run_postgres(root) as url:
        yield url


def make_progress() -> Callable[[str, int], None]:
    """Return what says on stderr how far a table is, every other second."""
    next_s = time.monotonic() + _EVERY_S

    def show(table: str, num_rows: int) -> None:
        nonlocal next_s
        if time.monotonic() >= next_s:
            next_s = time.monotonic() + _EVERY_S
            sys.stderr.write(f"{table}: {num_rows:,} rows\n")
            sys.stderr.flush()

    return show
