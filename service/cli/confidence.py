"""Flags for the confidence of a plan.

A level of the intervals, or their point.
"""

import argparse


def add_confidence(group: argparse._ActionsContainer) -> None:
    """Add the level of the intervals.

    It must fit at their upper end.
    """
    group.add_argument(
        "--confidence",
        type=float,
        default=0.95,
        metavar="LEVEL",
        help="it must fit at the upper end of this interval (0.95)",
    )


def add_search_confidence(group: argparse._ArgumentGroup) -> None:
    """Add the level, or a flag that accepts the point."""
    either = group.add_mutually_exclusive_group()
    add_confidence(either)
    either.add_argument("--tight", action="store_true", help="accept what fits at the point only")


def get_confidence(options: argparse.Namespace) -> float | None:
    """Return the level that a search is asked for.

    ``None`` is the point.
    """
    level: float = options.confidence
    return None if options.tight else level
