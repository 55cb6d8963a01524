"""``python -m tests.accuracy [--write]``: scores the estimator, prints the table, writes its pages
under ``docs``.
"""

import argparse
import sys

from tests.accuracy.after import report as after
from tests.accuracy.pages import pages
from tests.accuracy.published.report import score_all, text
from tests.accuracy.published.rows import published_cases
from tests.accuracy.report import text_report
from tests.accuracy.scoring import score_everything
from tests.accuracy.times import report as times


def main() -> None:
    """Score everything."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.accuracy",
        description="Score the estimator against traced and published runs.",
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help="also write docs/accuracy.md, its picture and docs/published.md",
    )
    arguments = parser.parse_args()
    scores, published = score_everything(), score_all(published_cases())
    sys.stdout.write(text_report(scores))
    sys.stdout.write(f"\n{text(published)}\n{after.text()}\n{times.format_text()}")
    if arguments.write:
        for path, content in pages(scores, published).items():
            path.write_text(content)


if __name__ == "__main__":
    main()
