"""Where two answers differ: field by field, in a few lines."""

import json
from collections.abc import Iterator
from typing import Any

from tests.answers.questions import Json

_SHOWN = 160
_ABSENT = "(absent)"
_NOTHING = frozenset[str]()


def differences(before: Json, after: Json, without: frozenset[str] = _NOTHING) -> Iterator[str]:
    """Yield each difference of two answers, as its path, what it was and what it is.

    Fields ``without`` whose names answers are compared may differ.
    """
    for name in dict.fromkeys((*before, *after)):
        one, two = before.get(name, _ABSENT), after.get(name, _ABSENT)
        if one == two:
            continue
        if name in {"body", "stderr"} and isinstance(one, str) and isinstance(two, str):
            yield from _texts(name, one, two, without)
        else:
            yield from _values(name, one, two, without)


def _texts(path: str, one: str, two: str, without: frozenset[str]) -> Iterator[str]:
    """Yield the differences of two bodies, as JSON where they are."""
    try:
        found = list(_values(path, json.loads(one), json.loads(two), without))
    except ValueError:
        found = list(_lines(path, one.splitlines(), two.splitlines()))
    if found or without:
        yield from found
        return
    pairs = zip(one, two, strict=False)
    place = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(two)))
    context = slice(max(0, place - 40), place + 40)
    yield f"{path}: equal values, other text at {place}: {one[context]!r} | {two[context]!r}"


def _values(path: str, one: Any, two: Any, without: frozenset[str]) -> Iterator[str]:  # noqa: ANN401
    if isinstance(one, dict) and isinstance(two, dict):
        for name in dict.fromkeys((*one, *two)):
            if name not in without:
                before, after = one.get(name, _ABSENT), two.get(name, _ABSENT)
                yield from _values(f"{path}.{name}", before, after, without)
    elif isinstance(one, list) and isinstance(two, list):
        if len(one) != len(two):
            yield f"{path}: {len(one)} items | {len(two)} items"
        for number, (first, second) in enumerate(zip(one, two, strict=False)):
            yield from _values(f"{path}[{number}]", first, second, without)
    elif one != two or type(one) is not type(two):
        yield f"{path}: {_short(one)} | {_short(two)}"


def _lines(path: str, one: list[str], two: list[str]) -> Iterator[str]:
    if len(one) != len(two):
        yield f"{path}: {len(one)} lines | {len(two)} lines"
    for number, (first, second) in enumerate(zip(one, two, strict=False), start=1):
        if first != second:
            yield f"{path}, line {number}: {_short(first)} | {_short(second)}"


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
