"""Corpus of public launches: ``python -m tests.corpus --clones DIR``.

Every launch of the manifest is read; the status is 1 where one crashes. ``--write`` puts the counts
into ``docs/launches.md``.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from rich.console import Console

from tests.corpus.manifest import MANIFEST, read_manifest
from tests.corpus.outcomes import Outcome, count_project, read_outcome
from tests.corpus.page import PAGE, render_page


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the corpus, and print what became of it."""
    options = _build_parser().parse_args(arguments)
    entries = [
        entry
        for entry in read_manifest(MANIFEST.read_text(encoding="utf-8"))
        if options.only in entry.place
    ]
    outcomes = [read_outcome(options.clones, entry) for entry in entries]
    console = Console(width=200, markup=False, highlight=False)
    _print_refusals(console, outcomes, names=options.verbose)
    counts = {
        repository: count_project(group)
        for repository, group in groupby(outcomes, key=lambda one: one.entry.repository)
    }
    commits = {entry.repository: entry.commit for entry in entries}
    page = render_page(counts, commits)
    console.print(page)
    if options.ignored:
        ignored = Counter(
            (one.imported.launcher.value, key.lstrip("-").split("=")[0])
            for one in outcomes
            if one.imported is not None
            for key in one.imported.ignored
        )
        for (launcher, key), number in ignored.most_common(options.ignored):
            console.print(f"{number:5} {launcher:14} {key}")
    if options.write:
        PAGE.write_text(page, encoding="utf-8")
    return int(any(one.crash for one in outcomes))


def _print_refusals(console: Console, outcomes: Sequence[Outcome], *, names: bool) -> None:
    for outcome in outcomes:
        if outcome.crash is not None:
            console.print(f"CRASH {outcome.entry.place}: {outcome.crash}")
        elif outcome.refusal is not None and names:
            console.print(f"{outcome.entry.place}: {outcome.refusal}")


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.corpus", description=__doc__)
    parser.add_argument(
        "--clones", type=Path, required=True, help="folder with a git clone owner+name of each"
    )
    parser.add_argument("--only", default="", help="text that a launch's place has to hold")
    parser.add_argument("--verbose", action="store_true", help="print each refusal")
    parser.add_argument("--ignored", type=int, default=0, help="print so many ignored keys")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
