"""``python -m tests.accuracy.published [CLASS …]``: scores published readings and prints the tables
with the worst of each.
"""

import sys

from tests.accuracy.published.report import score_all, text
from tests.accuracy.published.rows import published_cases


def main() -> None:
    """Score the classes that are named, or all."""
    wanted = set(sys.argv[1:])
    cases = [case for case in published_cases() if not wanted or case.scores_as in wanted]
    sys.stdout.write(text(score_all(cases)))


if __name__ == "__main__":
    main()
