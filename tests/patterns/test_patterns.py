"""No regular expression goes over a text again and again, whatever text that is.

Each is tried with texts made for it, by a matcher that counts: a text of twice the length may take
twice the steps.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.patterns.collecting import Expression, list_expressions
from tests.patterns.pumps import Pump, list_pumps
from tests.patterns.steps import SteppingMatcher

SHORT, LONG = 8, 300
MOST_STEPS = 500_000
MADE_LATER = {
    "service/api/http/routing.py": "paths of our own routes",
    "service/cli/submissions/object_names.py": "names, escaped, of what one's own command submits",
    "service/estimator/model/pipelines/deepspeed.py": "64 letters, digits and bars (the schema)",
    "service/estimator/model/pipelines/megatron.py": "constants; what they make is bounded",
    "service/estimator/model/recorded/kinds.py": "constants without repeats",
    "service/estimator/model/weights/name_patterns.py": "counted before it is compiled",
    "service/formats/failures/wording.py": "constants, each tried by test_wordings.py",
    "service/formats/measured/vllm.py": "constants, tried below",
}
"""Where patterns are made while the program runs, and why that is safe."""
BOUNDED = {
    (
        "service/catalog/gpu_names.py",
        "rtx(?=[a-z0-9]*[0-9]{4})",
    ): "read of the catalogue's own names alone",
    (
        "service/formats/launches/trainers/target_patterns.py",
        r"\[[^\]]*\][*+?]?|\\[dw][*+?]?|\.[*+]\??",
    ): "read of 4,096 characters at most",
}
"""Patterns that take more, and of what alone."""


@contextmanager
def deep_calls() -> Iterator[None]:
    """Let a matcher call itself as often as a text is long."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(200_000)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def grows(matcher: SteppingMatcher, pump: Pump, mode: str, number: int) -> bool:
    """Return whether the second half of a text takes over twice what its first does."""
    number = max(4, number // min(len(pump.part), 8))
    none, half, whole = (
        matcher.count(pump.make(times), mode=mode, most=MOST_STEPS)
        for times in (0, number, 2 * number)
    )
    is_faster = whole > 2.2 * half and whole - half > 2 * (half - none) + 8
    return whole >= MOST_STEPS or is_faster


def find_growth(pattern: str | bytes, flags: int = 0, modes: frozenset[str] | None = None) -> str:
    """Return a text over which a pattern goes again and again, empty where there is none."""
    matcher = SteppingMatcher(pattern, flags)
    for mode in sorted(modes or {"all"}):
        for pump in list_pumps(matcher):
            if grows(matcher, pump, mode, SHORT) and grows(matcher, pump, mode, LONG):
                return f"{mode}: {pump}"
    return ""


def test_no_expression_goes_over_a_text_again_and_again() -> None:
    """A few hundred are tried with some ten texts each."""
    with deep_calls():
        found = {
            (expression.place, expression.pattern): growth
            for expression in list_expressions()
            if expression.pattern is not None
            and (growth := find_growth(expression.pattern, expression.flags, expression.modes))
        }

    assert {key: text for key, text in found.items() if key not in BOUNDED} == {}
    assert BOUNDED.keys() <= found.keys(), "one of these is linear by now"


def test_expressions_that_are_made_later_are_known() -> None:
    """What no test can try here says why it is safe."""
    made = {each.place for each in list_expressions() if each.pattern is None}

    assert made == MADE_LATER.keys()


def test_all_expressions_are_found() -> None:
    """Constants, parts of strings, words of a schema, and those that are used once."""
    tried = [each for each in list_expressions() if each.pattern is not None]

    assert len(tried) > 250
    assert {mode for each in tried for mode in each.modes} == {"match", "fullmatch", "all"}


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)+b",
        r"(a|a)*b",
        r"(?:.?){30}!",
        r"\s+$",
        r"a.*b.*c",
        r"([^\[\]]*)\[",
        r'(?:[^"\\]|\\.)*"',
        r"\d+(?:\.\d+)?[mb]",
    ],
)
def test_growth_is_seen(pattern: str) -> None:
    """Patterns of which each is known to go back, exponentially or at each start anew."""
    with deep_calls():
        growth = find_growth(pattern)

    assert growth


@pytest.mark.parametrize(
    "pattern", [r"a++b", r"(?<!\s)\s++$", r"[a-z]{1,60}=", r"^a*b", r"(?>a+)b"]
)
def test_what_does_not_grow_passes(pattern: str) -> None:
    """Possessive repeats, a look back at where a run began, bounds."""
    with deep_calls():
        growth = find_growth(pattern, modes=frozenset({"match"}))

    assert growth == ""


def list_samples() -> list[Expression]:
    """Return expressions of every kind of node."""
    return [each for each in list_expressions() if isinstance(each.pattern, str)][::12]


@pytest.mark.parametrize("each", list_samples(), ids=lambda each: each.source[:30])
def test_the_matcher_matches_as_re_does(each: Expression) -> None:
    """Otherwise it would count the steps of something else."""
    assert isinstance(each.pattern, str)
    matcher, compiled = (
        SteppingMatcher(each.pattern, each.flags),
        re.compile(each.pattern, each.flags),
    )
    texts = [pump.make(number) for pump in list_pumps(matcher)[:12] for number in (1, 3)]

    with deep_calls():
        stepped = [matcher.list_matches(text) for text in texts]

    assert stepped == [[match.span() for match in compiled.finditer(text)] for text in texts]
