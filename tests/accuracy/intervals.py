"""``python -m tests.accuracy.intervals [--write]``: sets widths of intervals from residuals, and
measures what they cover; ``--write`` writes the tables and ``docs/intervals.md``.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from service.estimator.memory.intervals.replay_classes import (
    ELSEWHERE_CLASS,
    RANKS_CLASS,
    RECORDED_CLASS,
    SERVED_CLASS,
    VARIANT_CLASS,
)
from tests.accuracy.published.rows import published_cases
from tests.accuracy.published.scoring import PublishedScore, score_published
from tests.accuracy.widths.conformal import (
    LEVEL,
    MIN_GROUPS,
    NUM_FOLDS,
    Residual,
    Width,
    binomial_range,
    carried,
    coverage,
    fold_of,
    holds,
    width,
)
from tests.accuracy.widths.interval_rows import sources_of, table_of
from tests.accuracy.widths.report import PAGE, Line, render_page
from tests.accuracy.widths.residuals import DEVICE_QUANTITIES, residuals, sets_width

TABLES = Path(__file__).resolve().parents[2] / "service" / "estimator" / "memory" / "intervals"
SHOWN_LEVELS = (0.5, 0.8, 0.9)
K = TypeVar("K")
V = TypeVar("V")


def widths_of(
    found: Sequence[Residual], level: float = LEVEL
) -> tuple[dict[str, Width], dict[tuple[str, str], Width]]:
    """Return the widths of each quantity over all kinds, and those of each kind.

    A kind with too few groups for the level is at least as wide as all kinds together, and holds
    what its own have shown, ranks of recorded families as those families run otherwise, served
    ones as recorded steps; on GPUs without records it is beside all that others have shown.
    """
    pooled = {
        quantity: width(group, level)
        for quantity, group in _grouped(
            # Recorded runs are of one kind of GPU, and say nothing of kinds that have few.
            [each for each in found if not each.model],
            lambda each: each.quantity,
        ).items()
    }
    kinds = _grouped(found, lambda each: (each.kind, each.quantity))
    widths = {key: _of_kind(group, pooled[key[1]], level) for key, group in kinds.items()}
    for (kind, quantity), group in kinds.items():
        if kind == ELSEWHERE_CLASS:
            widths[kind, quantity] = _elsewhere(group, widths[RECORDED_CLASS, quantity])
        if kind == RANKS_CLASS:
            widths[kind, quantity] = _of_kind(group, widths[VARIANT_CLASS, quantity], level)
        if kind == SERVED_CLASS:
            widths[kind, quantity] = _of_kind(group, widths[RECORDED_CLASS, quantity], level)
    return pooled, widths


def _elsewhere(group: Sequence[Residual], recorded: Width) -> Width:
    """Return the width on GPUs without records: what was seen at most, beside that of a level."""
    seen = width(group, 1.0)
    return replace(seen, low=seen.low * recorded.low, high=seen.high * recorded.high)


def _of_kind(group: Sequence[Residual], all_: Width, level: float) -> Width:
    own, seen = width(group, level), width(group, 1.0)
    if own.num_groups >= MIN_GROUPS and level <= carried(own.num_groups):
        return own
    return Width(
        low=min(all_.low, seen.low), high=max(all_.high, seen.high), num_groups=own.num_groups
    )


def report(found: Sequence[Residual]) -> str:
    """Return the lines of all kinds and quantities for a terminal."""
    lines = [
        (
            f"{'kind':12} {'quantity':10} {'low':>8} {'high':>8} {'width':>8} {'groups':>7} "
            f"{'coverage':>9} {'binomial 95 %':>16}"
        )
    ]
    lines += [str(line) for line in lines_of(found)]
    return "\n".join(lines) + "\n"


def lines_of(found: Sequence[Residual]) -> list[Line]:
    """Return, by kind and quantity, the widths of all groups, and what widths that a group did not
    set cover of it.
    """
    pooled, kinds = widths_of(found)
    held = [pair for fold in range(NUM_FOLDS) for pair in _held(found, fold)]
    of_kinds = _grouped(held, lambda pair: (pair[0].kind, pair[0].quantity))
    of_all = _grouped(held, lambda pair: pair[0].quantity)
    return [
        *(
            _line(kind, quantity, kinds.get((kind, quantity), pooled[quantity]), pairs)
            for (kind, quantity), pairs in sorted(of_kinds.items())
        ),
        *(
            _line("all", quantity, pooled[quantity], pairs)
            for quantity, pairs in sorted(of_all.items())
        ),
    ]


def other_levels(found: Sequence[Residual]) -> str:
    """Return what the widths of other levels cover of groups that did not set them."""
    lines = []
    for level in SHOWN_LEVELS:
        held = [pair for fold in range(NUM_FOLDS) for pair in _held(found, fold, level)]
        for quantity, pairs in sorted(_grouped(held, lambda pair: pair[0].quantity).items()):
            share, groups = coverage((residual.group, inside) for residual, inside in pairs)
            lines.append(
                f"level {level:.2f}  {quantity:10} {groups:4} groups, coverage {share:.3f}\n"
            )
    return "".join(lines)


def _held(
    found: Sequence[Residual], fold: int, level: float = LEVEL
) -> Iterator[tuple[Residual, bool]]:
    """Yield the residuals of one fold, and whether the widths that the other folds set hold
    them.
    """
    pooled, kinds = widths_of(
        [each for each in found if fold_of(each.model or each.group) != fold], level
    )
    for each in found:
        if fold_of(each.model or each.group) == fold and each.quantity in pooled:
            yield each, holds(kinds.get((each.kind, each.quantity), pooled[each.quantity]), each)


def devices(published: Sequence[PublishedScore]) -> str:
    """Return what the intervals of device bytes cover of readings that set no width; contexts are
    those of other sources.
    """
    apart = [
        score
        for score in published
        if score.quantity in DEVICE_QUANTITIES and not sets_width(score)
    ]
    held = _grouped(apart, lambda score: score.group)
    shares = [sum(score.covered is True for score in group) / len(group) for group in held.values()]
    if not shares:
        return "no published reading of device bytes that set no width has an answer\n"
    low, high = binomial_range(len(shares))
    share = sum(shares) / len(shares)
    return (
        f"device bytes: {len(shares)} groups that set no width, coverage {share:.3f}, binomial 95 "
        f"% {low:.3f} to {high:.3f}\n"
    )


def _line(kind: str, quantity: str, each: Width, pairs: Sequence[tuple[Residual, bool]]) -> Line:
    share, groups = coverage((residual.group, inside) for residual, inside in pairs)
    return Line(
        kind=kind,
        quantity=quantity,
        width=each,
        num_groups=groups,
        coverage=share,
        binomial=binomial_range(groups),
    )


def _grouped(found: Sequence[V], key: Callable[[V], K]) -> dict[K, list[V]]:
    grouped: dict[K, list[V]] = {}
    for each in found:
        grouped.setdefault(key(each), []).append(each)
    return grouped


def main() -> None:
    """Print the report; with ``--write`` write the tables and their page as well."""
    published = score_published(published_cases()).scores
    found = residuals(published)
    if "--write" in sys.argv[1:]:
        table = table_of(found, partial(widths_of, found))
        for name, source in sources_of(table).items():
            (TABLES / f"{name}.py").write_text(source)
        PAGE.write_text(render_page(lines_of(found)), encoding="utf-8")
    sys.stdout.write(report(found) + other_levels(found) + devices(published))


if __name__ == "__main__":
    main()
