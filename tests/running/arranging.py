"""Order of the tests in several processes: what takes long comes first.

xdist gives each process an equal number of tests in a row, and whoever is ready takes from the end
of another's. So each part begins with its share of long files, longest first, and ends with short
tests: the last minute has none that others wait for.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import PurePosixPath
from typing import TypeVar

import pytest

from tests.running.long_tests import SECONDS

Test = TypeVar("Test")
_COUNT = "PYTEST_XDIST_WORKER_COUNT"


@dataclass(slots=True)
class _Part:
    """What one process begins with."""

    seconds: float = 0.0
    tests: list[int] = field(default_factory=list)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Arrange the tests for as many processes as there are."""
    num_parts = int(os.environ.get(_COUNT, "1"))
    if num_parts > 1:
        items[:] = arrange(items, lambda item: item.nodeid.partition("::")[0], num_parts)


def arrange(tests: list[Test], get_file: Callable[[Test], str], num_parts: int) -> list[Test]:
    """Return the tests in the order of parts, which are of equal number but for the last."""
    groups: dict[str, list[int]] = {}
    short: list[int] = []
    for number, test in enumerate(tests):
        place = find_long(get_file(test))
        (short if place is None else groups.setdefault(place, [])).append(number)
    parts = [_Part() for _ in range(num_parts)]
    for place in sorted(groups, key=lambda place: (-SECONDS[place], place)):
        part = min(parts, key=lambda part: part.seconds)
        part.seconds += SECONDS[place]
        part.tests += groups[place]
    return [tests[number] for number in _fill(parts, short, len(tests))]


def find_long(file: str) -> str | None:
    """Return the file or folder of the table that a file is, or lies in."""
    path = PurePosixPath(file)
    return next((str(place) for place in (path, *path.parents) if str(place) in SECONDS), None)


def _fill(parts: list[_Part], short: list[int], total: int) -> Iterable[int]:
    """Yield each part's long tests, and short ones up to the number that a process gets."""
    rest = iter(short)
    given = 0
    for number, part in enumerate(parts):
        size = (total - given) // (len(parts) - number)
        part.tests += islice(rest, max(0, size - len(part.tests)))
        given += len(part.tests)
        yield from part.tests
    yield from rest
