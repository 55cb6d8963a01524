"""Write everything that the database at DATABASE_URL holds, or that of a data directory, to a new
file; as of one moment, while everything runs.
"""

import argparse
from importlib.metadata import version

from service.cli.commands.about.version import DISTRIBUTION
from service.cli.commands.database.places import add_place, make_progress, open_database
from service.db.backups.saving import save


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file and the data directory."""
    add_place(parser)


def run(options: argparse.Namespace) -> int:
    """Write the backup and print what it holds."""
    with open_database(options, may_run=True) as url:
        manifest = save(url, options.file, version=version(DISTRIBUTION), on_rows=make_progress())
    num_rows = sum(table.num_rows for table in manifest.tables)
    size = options.file.stat().st_size
    print(  # noqa: T201 - the command's answer
        f"{options.file}: {num_rows:,} rows of {len(manifest.tables)} tables, schema "
        f"{manifest.schema}, {size:,} bytes"
    )
    return 0
