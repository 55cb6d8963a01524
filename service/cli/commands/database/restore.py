"""Fill the database at DATABASE_URL, or that of a data directory, from a backup, and bring it to
this version's schema; all of it, or nothing.
"""

import argparse

from service.cli.commands.database.places import add_place, make_progress, open_database
from service.db.backups.restoring import restore


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file, the data directory, and a word for a database that is not empty."""
    add_place(parser)
    parser.add_argument(
        "--replace", action="store_true", help="delete what the database holds; else it is refused"
    )


def run(options: argparse.Namespace) -> int:
    """Restore and print what came back."""
    with open_database(options, may_run=False) as url:
        manifest = restore(url, options.file, replace=options.replace, on_rows=make_progress())
    num_rows = sum(table.num_rows for table in manifest.tables)
    print(  # noqa: T201 - the command's answer
        f"{num_rows:,} rows of {len(manifest.tables)} tables are back, of Headroom "
        f"{manifest.headroom} at {manifest.created_at}"
    )
    return 0
