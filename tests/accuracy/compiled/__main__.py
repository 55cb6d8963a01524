"""``python -m tests.accuracy.compiled FAMILY…``: what is kept, counted and answered."""

import sys

from tests.accuracy.compiled.kept import POLICIES_KEPT, count_answered
from tests.accuracy.compiled.partitioner import count_kept


def main() -> None:
    """Print both counts of each family and policy: half a minute each."""
    for family in sys.argv[1:] or ["llama"]:
        for policy, autocast in POLICIES_KEPT.items():
            counted = count_kept(family, autocast=autocast)
            answered = count_answered(family, policy)
            sys.stdout.write(f"{family} {policy}: {counted:.0f} kept, {answered:.0f} answered\n")


if __name__ == "__main__":
    main()
