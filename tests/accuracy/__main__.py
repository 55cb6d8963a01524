"""``python -m tests.accuracy [--write]``: scores the estimator, prints the table, writes ``docs/accuracy.md``."""

import argparse
import sys

from tests.accuracy.pages import pages
from tests.accuracy.report import text_report
from tests.accuracy.scoring import score_everything


def main() -> None:
    """Score everything."""
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy", description="Score the estimator against traced runs.")
    parser.add_argument("--write", action="store_true", help="also write docs/accuracy.md and its picture")
    arguments = parser.parse_args()
    scores = score_everything()
    sys.stdout.write(text_report(scores))
    if arguments.write:
        for path, content in pages(scores).items():
            path.write_text(content)


if __name__ == "__main__":
    main()
