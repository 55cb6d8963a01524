"""Writes down what calibration does: to answers that are right, and to answers that are wrong on
purpose.
"""

from collections.abc import Mapping
from functools import cache

from tests.accuracy.after.probes import Mistake, curves, half_as_wide, with_relu
from tests.accuracy.after.scoring import Comparison, Errors, compare, held_out

MISTAKES: Mapping[str, Mistake | None] = {
    "as it is": None,
    "every activation taken for a ReLU": with_relu,
    "feed-forward layers taken for half as wide": half_as_wide,
}
"""What the estimator is made to believe, in words."""
_HEADINGS = (
    "estimator",
    "curves",
    "held out",
    "median",
    "p95",
    "max",
    "bias",
    "after: median",
    "p95",
    "max",
    "bias",
)


@cache
def comparisons() -> dict[str, Comparison]:
    """Return what two probes per curve make of a third size, for the estimator as it is and for
    each mistake.
    """
    return {name: compare(held_out(curves(mistake))) for name, mistake in MISTAKES.items()}


def rows() -> list[tuple[str, ...]]:
    """Return the table, headings first."""
    return [
        _HEADINGS,
        *(
            (
                name,
                str(one.num_curves),
                str(one.num_held),
                *_errors(one.before),
                *_errors(one.after),
            )
            for name, one in comparisons().items()
        ),
    ]


def text() -> str:
    """Return the table for a terminal."""
    table = rows()
    widths = [max(len(row[index]) for row in table) for index in range(len(_HEADINGS))]
    lines = (
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in table
    )
    return (
        "after calibration by two probes: a third size of the same curve\n"
        + "\n".join(lines)
        + "\n"
    )


def markdown() -> str:
    """Return a section of ``docs/accuracy.md``."""
    heading, *found = rows()
    table = [heading, ("---", *["---:"] * (len(heading) - 1)), *found]
    return f"{_INTRODUCTION}\n" + "\n".join(f"| {' | '.join(row)} |" for row in table) + "\n"


def _errors(found: Errors) -> tuple[str, ...]:
    return tuple(f"{value:.4%}" for value in (found.median, found.p95, found.max, found.bias))


_INTRODUCTION = """\
## After calibration

Two sizes of a model are measured, and a third one is answered by what they taught (`python -m tests.accuracy.priors` made the
readings; every pair of sizes with different numbers of tokens is tried). Errors are of allocated peaks, relative to what was
measured. Where the analytic answer is right, two probes leave it alone. The other lines ask an estimator that is made to be
wrong on purpose, in a way that no term of it can express.
"""
