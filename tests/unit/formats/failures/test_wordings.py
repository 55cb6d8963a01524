"""No text makes a pattern go back: what is read is read in one pass."""

import re
from importlib import import_module

import pytest

from service.formats.failures.scan import MAX_LINE, LogScanner, scan_lines, split_line
from service.formats.failures.wording import PATTERNS

_parser = import_module("re._parser")
_MODULES = ("scan", "accounting", "growth")
for _name in _MODULES:
    import_module(f"service.formats.failures.{_name}")
_LONGEST = 600


def list_faults(pattern: object) -> list[str]:
    """Return the repeats of a parsed pattern that are unbounded, long or able to go back."""
    faults: list[str] = []
    for operation, argument in pattern:  # type: ignore[attr-defined]
        name = str(operation)
        if name in {"MAX_REPEAT", "MIN_REPEAT"}:
            low, high, inner = argument
            if low != high:
                faults.append(f"{name} {low} to {high}")
            faults += list_faults(inner)
        elif name == "POSSESSIVE_REPEAT":
            low, high, inner = argument
            if int(high) > _LONGEST:
                faults.append(f"{name} {low} to {high}")
            faults += list_faults(inner)
        elif name == "BRANCH":
            faults += [fault for branch in argument[1] for fault in list_faults(branch)]
        elif name in {"SUBPATTERN", "ATOMIC_GROUP"}:
            faults += list_faults(argument[-1] if name == "SUBPATTERN" else argument)
    return faults


@pytest.mark.parametrize("pattern", [each.pattern for each in PATTERNS])
def test_no_pattern_can_go_back(pattern: str) -> None:
    """Every repeat is bounded and possessive, so that time is linear in the text."""
    assert list_faults(_parser.parse(pattern)) == []


def test_a_pattern_that_can_go_back_is_seen() -> None:
    """The check itself tells a greedy repeat and an endless one."""
    assert list_faults(_parser.parse("a+b"))
    assert list_faults(_parser.parse("(?:a{1,5}+b){1,3}")) == ["MAX_REPEAT 1 to 3"]
    assert list_faults(_parser.parse("x{1,9999}+"))
    assert re.compile("x{1,9}+").search("xxx")


def test_a_long_line_is_cut() -> None:
    """Of a line of a megabyte as much is looked at as of a long one, in whatever pieces it came."""
    message = "CUDA out of memory. Tried to allocate 1.00 GiB"
    scanner = LogScanner()

    scanner.feed(1, "9" * 1_000_000 + message)

    assert scanner.finish().failures == ()
    assert [len(text) for _, text in split_line(1, "9" * 1_000_000)] == [MAX_LINE]


@pytest.mark.parametrize(
    "unit",
    [
        "1",
        "GPU 0 has a total capacity of ",
        'File "',
        "CUDA out of memory. Tried to allocate ",
        "\n[rank0]: CUDA out of memory. Tried to allocate 1.00 GiB",
        '\n  File "a.py", line 1, in f',
        "\nmemory: 1.00GiB( step: ",
        "\r",
        "\nMA 1 GB",
    ],
)
def test_what_is_kept_is_bounded(unit: str) -> None:
    """A crafted megabyte leaves a few hundred failures and frames at most."""
    text = unit * (1_000_000 // len(unit))

    log = scan_lines(
        piece
        for number, line in enumerate(text.split("\n"), start=1)
        for piece in split_line(number, line)
    )

    assert len(log.failures) <= 500
    assert sum(len(failure.frames) for failure in log.failures) <= 500 * 200
