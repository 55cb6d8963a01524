"""Relative ends of intervals, by level, kind of answer and quantity.

The ends are residuals on cases that no rule was chosen by (split conformal prediction,
arXiv:1604.04173), written down in ``table`` and ``pooled_ends`` by
``python -m tests.accuracy.intervals --write`` for every hundredth of a level. A level between two
has the wider one. Contexts, communicators and the fixed parts of engines are known by the ends of
their readings alone, which stand at every level.
"""

from collections.abc import Sequence
from math import ceil

from service.estimator.memory.intervals.pooled_ends import HIGHEST_PERCENT, LOWEST_PERCENT, POOLED
from service.estimator.memory.intervals.table import WIDTHS
from service.estimator.values.memo import keep_latest

LEVEL = 0.95
PER_MILLION = 1_000_000
LOWEST, HIGHEST = LOWEST_PERCENT / 100, HIGHEST_PERCENT / 100


@keep_latest(256)
def get_level_index(level: float) -> int:
    """Return the index of a level in the table.

    A level between two hundredths has the next one above it; the highest stands for all above.
    """
    # A hundredth that is read from text is no whole number of hundredths to the last bit.
    percent = ceil(round(level * 100, 6))
    return min(max(percent, LOWEST_PERCENT), HIGHEST_PERCENT) - LOWEST_PERCENT


@keep_latest(1024)
def get_residual_ends(kind: str, quantity: str, level: float = LEVEL) -> tuple[int, int]:
    """Return the lowest and highest reading over the answer.

    They are in parts per million; those of all kinds where a kind has no cases.
    """
    lows, highs = WIDTHS.get((kind, quantity), POOLED[quantity])
    index = get_level_index(level)
    return lows[index], highs[index]


def find_conformal_width(sizes: Sequence[float], level: float = LEVEL) -> float | None:
    """Return the width that holds ``level`` of the next residuals.

    ``None`` where there are too few residuals to say.
    """
    rank = ceil(round((len(sizes) + 1) * level, 6))
    return sorted(sizes)[rank - 1] if 0 < rank <= len(sizes) else None
