"""Patterns of modules' names, as configs bring them.

A config comes from anybody, and Python's regular expressions may go back over a name of thirty
characters for hours, in which its process answers nobody. So what a pattern can cost is read off it
before it is used.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from re import _constants as tokens  # type: ignore[attr-defined]  # the parser of ``re`` itself
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from service.estimator.values.errors import InvalidConfigError
from service.estimator.values.memo import keep_latest

FIELD = "quantization_config.modules_to_not_convert"
MAX_CHARACTERS = 1000
"""Of one pattern; ModelOpt's longest has under a hundred."""
_NAME_CHARACTERS = 64
"""Of a module's name, about as many as the longest have; so often a repeat may end otherwise."""
MAX_WAYS = (_NAME_CHARACTERS + 1) ** 3
"""In which a pattern may match: three repeats of any length, or as much in alternatives."""
MAX_NAMES = 20_000
"""Of one config; a model of 61 layers of 256 experts that names each has 16,000."""
MAX_RULES = 512
"""Of these, patterns, which are compiled and kept."""
_MAX_INDEXES = 8
"""Of configs whose patterns stay in order for the next question."""
_MAX_SHOWN = 80
_PLAIN = re.compile(r"[\w.-]*+", re.ASCII)
_REPEATS = frozenset((tokens.MAX_REPEAT, tokens.MIN_REPEAT))
_FINAL = frozenset(
    (tokens.ATOMIC_GROUP, tokens.POSSESSIVE_REPEAT, tokens.ASSERT, tokens.ASSERT_NOT)
)
"""What matches in one way, or in none."""


def check_patterns(patterns: Sequence[str]) -> None:
    """Raise InvalidConfigError for too many patterns."""
    num_rules = sum(_PLAIN.fullmatch(pattern) is None for pattern in patterns)
    if len(patterns) > MAX_NAMES or num_rules > MAX_RULES:
        message = (
            f"{len(patterns):,} modules are not quantised, {num_rules:,} of them by patterns; "
            f"{MAX_NAMES:,} and {MAX_RULES} are read"
        )
        raise InvalidConfigError(message, field=FIELD)


def is_any_named(patterns: tuple[str, ...], names: Sequence[str]) -> bool:
    """Return whether one of many patterns names a module.

    ``names`` are those of one module. It is ``is_named`` of each pattern in turn, which for a
    checkpoint that lists a thousand modules is asked of each weight of each layer.
    """
    if not patterns:
        return False
    index = _index(patterns)
    first = min(index.find_plain(name) for name in names) if names else len(patterns)
    for place, rule in index.rules:
        if place > first:
            break
        if any(is_named(rule, name) for name in names):
            return True
    return first < len(patterns)


def is_named(pattern: str, name: str) -> bool:
    """Return whether a pattern names a module.

    It does from the start up to a dot, as a rule, or as the end of its name. Raises
    InvalidConfigError for what is no pattern, or costs too much.
    """
    if pattern.startswith("re:"):
        return _compile(pattern.removeprefix("re:")).match(name) is not None
    if name.endswith(pattern):
        return True
    if _PLAIN.fullmatch(pattern):
        return _begins(pattern, name)
    return _compile(pattern, end=r"(?:(?<=\.)|(?=\.|$))").match(name) is not None


def _begins(pattern: str, name: str) -> bool:
    """Return whether a name begins with words.

    Their dots stand for any character.
    """
    size = len(pattern)
    if size > len(name) or not all(
        sign in (".", other) for sign, other in zip(pattern, name, strict=False)
    ):
        return False
    return size == len(name) or name[size] == "." or name[size - 1 : size] == "."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Index:
    """Patterns with their places: rules in order, plain ones by their texts.

    ``starts`` has them by their length, and by where their dots are, which stand for any character.
    """

    size: int
    rules: tuple[tuple[int, str], ...]
    texts: Mapping[str, int]
    lengths: tuple[int, ...]
    starts: Mapping[int, Mapping[tuple[int, ...], Mapping[str, int]]]

    def find_plain(self, name: str) -> int:
        """Return the place of the first plain pattern that names a module.

        The number of all patterns where none does.
        """
        total, first = len(name), self.size
        for length in self.lengths:
            if length > total:
                break
            first = min(first, self.texts.get(name[total - length :], first))
            if length == total or name[length] == "." or name[length - 1 : length] == ".":
                first = min(first, self._find_start(name[:length], first))
        return first

    def _find_start(self, start: str, first: int) -> int:
        for dots, texts in self.starts[len(start)].items():
            signs = list(start)
            for dot in dots:
                signs[dot] = "."
            first = min(first, texts.get("".join(signs), first))
        return first


@keep_latest(_MAX_INDEXES)
def _index(patterns: tuple[str, ...]) -> _Index:
    rules: list[tuple[int, str]] = []
    texts: dict[str, int] = {}
    starts: dict[int, dict[tuple[int, ...], dict[str, int]]] = {}
    for place, pattern in enumerate(patterns):
        if _PLAIN.fullmatch(pattern) is None:
            rules.append((place, pattern))
        elif pattern not in texts:
            texts[pattern] = place
            dots = tuple(at for at, sign in enumerate(pattern) if sign == ".")
            starts.setdefault(len(pattern), {}).setdefault(dots, {})[pattern] = place
    return _Index(
        size=len(patterns),
        rules=tuple(rules),
        texts=texts,
        lengths=tuple(sorted(starts)),
        starts=starts,
    )


@keep_latest(MAX_RULES)
def _compile(pattern: str, end: str = "") -> re.Pattern[str]:
    excerpt = pattern if len(pattern) <= _MAX_SHOWN else f"{pattern[:_MAX_SHOWN]}…"
    what = f"{excerpt!r} in the modules that are not quantised"
    if len(pattern) > MAX_CHARACTERS:
        message = f"{what} has {len(pattern):,} characters; a pattern has at most {MAX_CHARACTERS}"
        raise InvalidConfigError(message, field=FIELD)
    try:
        compiled, tree = (
            re.compile(f"(?:{pattern}){end}" if end else pattern),
            parser.parse(pattern),
        )
    except (re.error, RecursionError, OverflowError) as error:
        message = f"{what} is no pattern: {error}"
        raise InvalidConfigError(message, field=FIELD) from error
    if _count_ways(tree) > MAX_WAYS:
        message = (
            f"{what} may go over a name again and again; write it with at most three repeats "
            "(.*), none of them inside of another"
        )
        raise InvalidConfigError(message, field=FIELD)
    return compiled


def _count_ways(nodes: Any) -> int:  # noqa: ANN401 - a tree of ``re``
    """Count the ways in which a sequence may match, at most.

    More than ``MAX_WAYS`` is enough. What cannot be gone back into counts once, and what is tried
    in it must be few as well.
    """
    ways = 1
    for kind, value in nodes:
        ways *= _count_ways_of(kind, value)
        if ways > MAX_WAYS:
            break
    return ways


def _count_ways_of(kind: Any, value: Any) -> int:  # noqa: ANN401 - a node of that tree
    if kind in _FINAL:
        ways = _count_ways(value if kind is tokens.ATOMIC_GROUP else value[-1])
        return 1 if ways <= MAX_WAYS else ways
    if kind is tokens.SUBPATTERN:
        return _count_ways(value[-1])
    if kind is tokens.BRANCH:
        return sum(map(_count_ways, value[1]))
    if kind is tokens.GROUPREF_EXISTS:
        return sum(_count_ways(branch) for branch in value[1:] if branch is not None)
    return _count_ways_of_repeat(*value) if kind in _REPEATS else 1


def _count_ways_of_repeat(minimum: int, maximum: int, body: Any) -> int:  # noqa: ANN401 - a tree of ``re``
    ways = _count_ways(body)
    if maximum <= 1:
        return ways + 1
    if ways > 1 or _can_vary(body):
        # Twice in a row there are the ways of both, and so on at each of them.
        return MAX_WAYS + 1
    return min(int(maximum) - int(minimum), _NAME_CHARACTERS) + 1


def _can_vary(nodes: Any) -> bool:  # noqa: ANN401 - a tree of ``re``
    """Return whether a sequence matches texts of several lengths."""
    shortest, longest = nodes.getwidth()
    return bool(shortest != longest)
