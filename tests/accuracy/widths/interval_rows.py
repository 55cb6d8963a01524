"""The sources of the tables in ``service/estimator/memory/intervals``: the ends of intervals at
every hundredth of a level.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap

from service.estimator.memory.intervals.ends import PER_MILLION
from service.estimator.values.workload import Allocator
from tests.accuracy.cases import StepCase, rank_cases, training_cases
from tests.accuracy.widths.conformal import Residual, Width, carried, ends
from tests.accuracy.widths.serving_slack import ratios

LOWEST_PERCENT = 50
LARGE_BYTES = 10_000_000_000
_WIDTH = 100
Ends = tuple[tuple[int, ...], tuple[int, ...]]
WidthsOf = Callable[[float], tuple[Mapping[str, Width], Mapping[tuple[str, str], Width]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Lows and highs in parts per million, from the lowest percent to the highest one that all
    groups together carry. A kind whose ends are those of all kinds has none of its own.
    """

    highest_percent: int
    num_groups: int
    pooled: Mapping[str, Ends]
    widths: Mapping[tuple[str, str], Ends]
    num_groups_of: Mapping[tuple[str, str], int]
    ratios: Mapping[tuple[str, str], Ends]
    rounding: tuple[int, ...]


def table_of(found: Sequence[Residual], widths_of: WidthsOf) -> Table:
    """Return the ends of all levels; ``widths_of`` gives those of one."""
    fewest = min(each.num_groups for each in widths_of(0.5)[0].values())
    highest = int(carried(fewest) * 100)
    levels = [percent / 100 for percent in range(LOWEST_PERCENT, highest + 1)]
    tables = [widths_of(level) for level in levels]
    pooled, kinds = tables[0]
    own = [
        key
        for key in sorted(kinds)
        if any(_get_ends(each[key]) != _get_ends(all_[key[1]]) for all_, each in tables)
    ]
    roundings = [
        each.blocks
        for each in found
        if each.quantity == "allocated" and each.group.startswith("traced/")
    ]
    return Table(
        highest_percent=highest,
        num_groups=fewest,
        pooled={name: _ends([all_[name] for all_, _ in tables]) for name in sorted(pooled)},
        widths={key: _ends([each[key] for _, each in tables]) for key in own},
        num_groups_of={key: each.num_groups for key, each in kinds.items()},
        ratios={key: _beyond(values, levels) for key, values in _runs()},
        rounding=_beyond(roundings, levels)[1],
    )


def sources_of(table: Table) -> dict[str, str]:
    """Return the table as modules, by their names."""
    return {
        "pooled_ends": _pooled_source(table),
        "table": _widths_source(table),
        "allocator_ratios": _ratios_source(table),
    }


def _pooled_source(table: Table) -> str:
    lines = [
        *_heading("Interval ends in parts per million", table.highest_percent),
        "Ends = tuple[tuple[int, ...], tuple[int, ...]]",
        f"LOWEST_PERCENT, HIGHEST_PERCENT = {LOWEST_PERCENT}, {table.highest_percent}",
        f"NUM_GROUPS = {table.num_groups}",
        '"""Groups of readings of the quantity that has fewest: they carry the highest percent."""',
        "POOLED: Mapping[str, Ends] = MappingProxyType({",
        *_rows((f'"{name}"', each, "") for name, each in table.pooled.items()),
        "})",
        '"""Of all kinds of answers together, as readings over answers."""',
        "",
    ]
    return "\n".join(lines)


def _widths_source(table: Table) -> str:
    lines = [
        *_heading("Interval ends in parts per million", table.highest_percent),
        "from service.estimator.memory.intervals.pooled_ends import Ends",
        "",
        "WIDTHS: Mapping[tuple[str, str], Ends] = MappingProxyType({",
        *_rows(
            (_pair(key), each, f"  # groups: {table.num_groups_of[key]}")
            for key, each in table.widths.items()
        ),
        "})",
        '"""By kind of answer and quantity, as readings over answers."""',
        "",
    ]
    return "\n".join(lines)


def _ratios_source(table: Table) -> str:
    lines = [
        *_heading("Bytes beyond tensors in parts per million", table.highest_percent),
        "from service.estimator.memory.intervals.pooled_ends import Ends",
        "",
        "RATIOS: Mapping[tuple[str, str], Ends] = MappingProxyType({",
        *_rows((_pair(key), each, "") for key, each in table.ratios.items()),
        "})",
        (
            '"""By allocator and class of runs: what is reserved beyond the allocated bytes, over '
            'these."""'
        ),
        "ROUNDING: tuple[int, ...] = (",
        *_numbers(table.rounding),
        ")",
        '"""By how much the allocator\'s blocks exceed the tensors in them at most, over these."""',
        "",
    ]
    return "\n".join(lines)


def _heading(subject: str, highest_percent: int) -> list[str]:
    """Return the docstring and the imports that generated tables begin with."""
    return [
        f'"""{subject}, a generated table.',
        "",
        (
            "Made by ``python -m tests.accuracy.intervals --write``: lows and highs of levels, "
            f"{LOWEST_PERCENT} to {highest_percent} percent."
        ),
        '"""',
        "",
        "# A table: one number a line would hide it.\n# fmt: off",
        "from collections.abc import Mapping",
        "from types import MappingProxyType",
        "",
    ]


def _runs() -> Iterator[tuple[tuple[str, str], list[float]]]:
    """Yield reserved over allocated bytes of traced runs by allocator and class."""
    steps, ranks = (
        training_cases(),
        [case for case in rank_cases() if case.options.get("world", 1) > 1],
    )
    for kind in Allocator:
        yield (kind.value, "gathering"), [_ratio(case, kind) for case in ranks]
        yield (
            (kind.value, "large"),
            [_ratio(case, kind) for case in steps if case.allocated_bytes > LARGE_BYTES],
        )
        yield (kind.value, "serving"), list(ratios(kind))
        yield (
            (kind.value, "small"),
            [_ratio(case, kind) for case in steps if case.allocated_bytes <= LARGE_BYTES],
        )


def _ratio(case: StepCase, kind: Allocator) -> float:
    reserved = case.reserved_bytes if kind is Allocator.DEFAULT else case.reserved_expandable_bytes
    return reserved / case.allocated_bytes


def _get_ends(each: Width) -> tuple[float, float]:
    return each.low, each.high


def _ends(widths: Sequence[Width]) -> Ends:
    lows = tuple(int(each.low * PER_MILLION) for each in widths)
    return lows, tuple(-int(-each.high * PER_MILLION // 1) for each in widths)


def _beyond(values: Sequence[float], levels: Sequence[float]) -> Ends:
    """Return the ends of what values exceed one by: nothing is reserved that is less than what is
    allocated.
    """
    found = [ends(values, level) for level in levels]
    lows = tuple(max(int((low - 1) * PER_MILLION), 0) for low, _ in found)
    return lows, tuple(max(-int(-(high - 1) * PER_MILLION // 1), 0) for _, high in found)


def _pair(key: tuple[str, str]) -> str:
    return f'("{key[0]}", "{key[1]}")'


def _rows(rows: Iterable[tuple[str, Ends, str]]) -> Iterator[str]:
    for name, (lows, highs), note in rows:
        yield f"    {name}: (({note}"
        yield from _numbers(lows)
        yield "    ), ("
        yield from _numbers(highs)
        yield "    )),"


def _numbers(values: Sequence[int]) -> list[str]:
    return wrap(
        ", ".join(map(str, values)) + ",",
        _WIDTH,
        initial_indent=" " * 8,
        subsequent_indent=" " * 8,
    )
