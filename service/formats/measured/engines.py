"""What start-up logs of serving engines share: lines with a rank, numbers with a unit, settings in one line."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from service.formats.measured.reading import GIB, LeftOut, Place, Quantity, Reading, rounded
from service.formats.measured.text import decimal_of, lines_of

OUT_OF_MEMORY = re.compile(r"CUDA out of memory|OutOfMemoryError|No available memory for the cache blocks")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """One way in which some version of an engine says a number of GiB, or of tokens."""

    quantity: Quantity
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a log and which rank wrote it, where it says so."""

    number: int
    text: str
    rank: str | None


def ranked_lines(text: str, rank: re.Pattern[str]) -> Iterator[Line]:
    """Yield every line with the rank that ``rank`` finds in it."""
    for number, line in lines_of(text):
        found = rank.search(line)
        yield Line(number=number, text=line, rank=None if found is None else next(part for part in found.groups() if part))


def read_wordings(line: Line, wordings: Iterable[Wording]) -> Iterator[Reading | LeftOut]:
    """Yield what each wording finds in a line; a negative amount, which a log may well print, is left out."""
    for wording in wordings:
        found = wording.pattern.search(line.text)
        if found is None:
            continue
        if found[1].startswith("-"):
            reason = "less than nothing was counted: others gave memory back meanwhile"
            yield LeftOut(what=f"{wording.quantity.value} {found[1]}", reason=reason, line=line.number)
        elif wording.quantity is Quantity.KV_POOL_TOKENS:
            yield tokens(int(found[1].replace(",", "")), line)
        else:
            yield gibibytes(found[1], wording.quantity, line)


def gibibytes(text: str, quantity: Quantity, line: Line) -> Reading:
    """Return a number of GiB, as exact as it was printed."""
    value, digits = decimal_of(text, line=line.number, what=quantity.value)
    middle, low, high = rounded(value, GIB, digits=digits)
    return Reading(quantity=quantity, value=middle, low=low, high=high, place=Place(rank=line.rank), line=line.number)


def tokens(value: int, line: Line) -> Reading:
    """Return a number of tokens of a pool."""
    return Reading(
        quantity=Quantity.KV_POOL_TOKENS, value=value, low=value, high=value, place=Place(rank=line.rank), line=line.number
    )


def settings_of(text: str, names: Mapping[str, re.Pattern[str]]) -> dict[str, str]:
    """Return the settings that a line names, each by its first mention."""
    return {name: found[1] for name, pattern in names.items() if (found := pattern.search(text)) is not None}


def finest(readings: Iterable[Reading]) -> tuple[Reading, ...]:
    """Return one reading per quantity and rank: the finest print, and of equally fine ones the last."""
    best: dict[tuple[Quantity, str | None], Reading] = {}
    for reading in readings:
        key = (reading.quantity, reading.place.rank)
        known = best.get(key)
        if known is None or _width(reading) <= _width(known):
            best[key] = reading
    return tuple(best.values())


def _width(reading: Reading) -> int:
    return (reading.high or reading.value) - reading.low
