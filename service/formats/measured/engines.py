"""Shared parsing of serving engines' start-up logs.

Lines have a rank, numbers a unit, and settings stand in one line.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from service.formats.measured.reading import (
    GIB,
    LeftOut,
    Place,
    Quantity,
    Reading,
    compute_rounding_bounds,
)
from service.formats.measured.text import iter_lines, parse_decimal

OUT_OF_MEMORY = re.compile(
    r"CUDA out of memory|OutOfMemoryError|No available memory for the cache blocks"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """Log wording of a number of GiB or tokens.

    Some version of an engine writes it so.
    """

    quantity: Quantity
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A log line with its rank, where it names one."""

    number: int
    text: str
    rank: str | None


def iter_ranked_lines(text: str, rank: re.Pattern[str]) -> Iterator[Line]:
    """Yield every line with the rank that ``rank`` finds in it."""
    for number, line in iter_lines(text):
        match = rank.search(line)
        yield Line(
            number=number,
            text=line,
            rank=None if match is None else next(part for part in match.groups() if part),
        )


def read_wordings(line: Line, wordings: Iterable[Wording]) -> Iterator[Reading | LeftOut]:
    """Yield the readings that the wordings find in a line.

    A negative amount, which a log may well print, is left out.
    """
    for wording in wordings:
        match = wording.pattern.search(line.text)
        if match is None:
            continue
        if match[1].startswith("-"):
            reason = "less than nothing was counted: others gave memory back meanwhile"
            yield LeftOut(
                what=f"{wording.quantity.value} {match[1]}", reason=reason, line=line.number
            )
        elif wording.quantity is Quantity.KV_POOL_TOKENS:
            yield make_token_reading(int(match[1].replace(",", "")), line)
        else:
            yield make_gib_reading(match[1], wording.quantity, line)


def make_gib_reading(text: str, quantity: Quantity, line: Line) -> Reading:
    """Return a reading in GiB, as exact as it was printed."""
    value, digits = parse_decimal(text, line=line.number, what=quantity.value)
    middle, low, high = compute_rounding_bounds(value, GIB, digits=digits)
    return Reading(
        quantity=quantity,
        value=middle,
        low=low,
        high=high,
        place=Place(rank=line.rank),
        line=line.number,
    )


def make_token_reading(value: int, line: Line) -> Reading:
    """Return a reading of a pool's tokens."""
    return Reading(
        quantity=Quantity.KV_POOL_TOKENS,
        value=value,
        low=value,
        high=value,
        place=Place(rank=line.rank),
        line=line.number,
    )


def find_settings(text: str, names: Mapping[str, re.Pattern[str]]) -> dict[str, str]:
    """Return the settings named in a line, each by its first mention."""
    return {
        name: match[1]
        for name, pattern in names.items()
        if (match := pattern.search(text)) is not None
    }


def select_finest(readings: Iterable[Reading]) -> tuple[Reading, ...]:
    """Return one reading per quantity and rank.

    It is the one of the finest print, and of equally fine ones the last.
    """
    best: dict[tuple[Quantity, str | None], Reading] = {}
    for reading in readings:
        key = (reading.quantity, reading.place.rank)
        current = best.get(key)
        if current is None or _compute_width(reading) <= _compute_width(current):
            best[key] = reading
    return tuple(best.values())


def _compute_width(reading: Reading) -> int:
    return (reading.high or reading.value) - reading.low
