"""Order of the tests in several processes."""

from itertools import pairwise
from pathlib import Path

import pytest

from tests.running.arranging import arrange, find_long
from tests.running.long_tests import SECONDS

_REPOSITORY = Path(__file__).parents[3]
LONGEST, *OTHERS = sorted(SECONDS, key=lambda place: -SECONDS[place])
TESTS = [(f"tests/unit/short/test_{number}.py", number) for number in range(100)] + [
    (place, number) for place in (*OTHERS, LONGEST) for number in range(2)
]


@pytest.mark.parametrize("num_parts", [2, 3, 4])
def test_no_test_is_lost(num_parts: int) -> None:
    """Each is there once."""
    arranged = arrange(TESTS, lambda test: test[0], num_parts)

    assert sorted(arranged) == sorted(TESTS)


def test_parts_begin_with_what_is_long() -> None:
    """The longest is first, and no process ends with a long one."""
    arranged = arrange(TESTS, lambda test: test[0], 2)
    middle = len(TESTS) // 2

    assert arranged[0][0] == LONGEST
    assert arranged[middle][0] == OTHERS[0]
    assert [find_long(arranged[end][0]) for end in (middle - 1, -1)] == [None, None]


def test_tests_of_a_place_stay_together() -> None:
    """What they share is started once."""
    arranged = arrange(TESTS, lambda test: test[0], 3)
    places = [file for file, _ in arranged if find_long(file)]

    changes = sum(before != after for before, after in pairwise(places))
    assert changes == len(SECONDS) - 1


@pytest.mark.parametrize("num_long", [0, 1, 12])
def test_parts_of_long_tests_alone_are_arranged(num_long: int) -> None:
    """Also where there are too few short ones to make parts equal."""
    tests = [(LONGEST, number) for number in range(num_long)] + TESTS[:3]

    assert sorted(arrange(tests, lambda test: test[0], 3)) == sorted(tests)


def test_every_place_is_there() -> None:
    """A file that is moved or gone leaves the table."""
    assert [place for place in SECONDS if not (_REPOSITORY / place).exists()] == []


def test_a_folder_stands_for_its_files() -> None:
    """What is not in the table is short."""
    assert find_long("tests/browser/test_shell.py") == "tests/browser"
    assert find_long("tests/unit/db/test_pages.py") is None
