"""``python -m tests.accuracy [--write]``: scores the estimator, prints the table, writes its pages
under ``docs``.
"""

import argparse
import sys

from tests.accuracy.after import report as after
from tests.accuracy.loop import report as loop
from tests.accuracy.pages import make_pages, make_published_page
from tests.accuracy.published.report import score_all, text
from tests.accuracy.published.rows import published_cases
from tests.accuracy.real.bounds import score_bounds
from tests.accuracy.real.report import render_text
from tests.accuracy.real.scoring import score_real_runs
from tests.accuracy.report import text_report
from tests.accuracy.scoring import score_everything
from tests.accuracy.times import report as times


def main() -> None:
    """Score everything."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.accuracy",
        description="Score the estimator against traced, published and recorded runs.",
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help="also write docs/accuracy.md, docs/published.md, docs/real-gpus.md and pictures",
    )
    arguments = parser.parse_args()
    scores, published = score_everything(), score_all(published_cases())
    sys.stdout.write(text_report(scores))
    sys.stdout.write(f"\n{text(published)}\n{after.text()}\n{times.format_text()}")
    sys.stdout.write(f"\n{loop.format_text()}")
    sys.stdout.write(f"\n{render_text(score_real_runs(), score_bounds())}")
    if arguments.write:
        for path, content in (make_pages(scores) | make_published_page(published)).items():
            path.write_text(content)


if __name__ == "__main__":
    main()
