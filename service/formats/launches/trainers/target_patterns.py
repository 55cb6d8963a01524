"""Names of layers in PEFT's pattern of ``target_modules``, which is never run.

PEFT 0.21, ``tuners/tuners_utils.py``, ``match_target_against_key``: a text is a pattern that a
whole name matches; a list is of names' ends.
"""

import re

_MAX_NAMES = 256
_MAX_CHARACTERS = 4096
_MAX_DEPTH = 16
_SIGNS = frozenset("()[]|\\*+?^$")
_CLASS = re.compile(r"\[[^\]]*\][*+?]?|\\[dw][*+?]?|\.[*+]\??")
_NAME = re.compile(r"\w+")


def is_pattern(text: str) -> bool:
    """Return whether a text is a pattern, and no list of names."""
    return not _SIGNS.isdisjoint(text)


def list_pattern_names(pattern: str) -> list[str] | None:
    """Return the last parts of names that a pattern of groups matches.

    None where it is more than groups of alternatives, or too many.
    """
    if len(pattern) > _MAX_CHARACTERS:
        return None
    text = _CLASS.sub("0", pattern.strip("^$")).replace("\\.", ".").replace("(?:", "(")
    names, index = _expand(text, 0, 0)
    if names is None or index < len(text):
        return None
    ends = sorted({name.rpartition(".")[2] for name in names})
    return ends if ends and all(_NAME.fullmatch(end) for end in ends) else None


def _expand(text: str, index: int, depth: int) -> tuple[list[str] | None, int]:
    """Return the texts of alternatives up to their closing parenthesis."""
    if depth > _MAX_DEPTH:
        return None, index
    alternatives: list[str] = []
    current = [""]
    while index < len(text) and text[index] != ")":
        sign = text[index]
        if sign == "(":
            inner, index = _expand(text, index + 1, depth + 1)
            if inner is None or index >= len(text):
                return None, index
            if text.startswith("?", index + 1):
                inner, index = [*inner, ""], index + 1
            current = [head + tail for head in current for tail in inner]
        elif sign == "|":
            alternatives += current
            current = [""]
        elif sign in _SIGNS:
            return None, index
        else:
            current = [head + sign for head in current]
        if len(current) + len(alternatives) > _MAX_NAMES:
            return None, index
        index += 1
    return alternatives + current, index
