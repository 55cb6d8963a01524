"""Delete progress, samples and files of measurements that ended long ago, old changes and old
decisions of hooks, at DATABASE_URL.
"""

import argparse
import os
from dataclasses import asdict
from datetime import timedelta

from service.cli.lifetimes import LIFE_HELP, parse_lifetime
from service.cli.printing import print_json
from service.db.session import make_engine, make_sessions
from service.runtime.settings import Settings
from service.usecases.operations.retention import Pruned, count_prunable, prune

_LABELS = {
    "events": "events of progress",
    "samples": "samples",
    "artifacts": "artifacts",
    "changes": "lines of the log of changes",
    "decisions": "decisions of hooks",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the age, and a flag to count only."""
    parser.add_argument(
        "--older-than",
        type=parse_lifetime,
        required=True,
        metavar="TIME",
        help=f"what is deleted is older than this: {LIFE_HELP}",
    )
    parser.add_argument("--dry-run", action="store_true", help="count, and delete nothing")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Delete, or count, and print how much."""
    age = timedelta(seconds=options.older_than)
    engine = make_engine(
        Settings.from_env(os.environ).require_database_url(),
        application_name="headroom-prune",
        pool_size=1,
    )
    try:
        sessions = make_sessions(engine)
        pruned = (
            count_prunable(sessions, older_than=age)
            if options.dry_run
            else prune(sessions, older_than=age)
        )
    finally:
        engine.dispose()
    if options.json:
        print_json({**asdict(pruned), "dry_run": options.dry_run})
    else:
        _print_counts(pruned, dry_run=options.dry_run)
    return 0


def _print_counts(pruned: Pruned, *, dry_run: bool) -> None:
    verb = "would be deleted" if dry_run else "deleted"
    for name, what in _LABELS.items():
        print(f"{getattr(pruned, name):>10,} {what} {verb}")  # noqa: T201 - the command's answer
