"""Conditions of a shell script that its own variables decide."""

from collections.abc import Callable, Mapping, Sequence

from service.formats.launches.shell.expansion import Expander
from service.formats.launches.shell.lexer import Token
from service.formats.launches.sources.limits import MAX_DEPTH

TESTS = frozenset({"[", "[[", "test"})
_BRACKETS = TESTS | {"]", "]]"}
_NUMERIC: Mapping[str, Callable[[int, int], bool]] = {
    "-eq": lambda left, right: left == right,
    "-ne": lambda left, right: left != right,
    "-lt": lambda left, right: left < right,
    "-le": lambda left, right: left <= right,
    "-gt": lambda left, right: left > right,
    "-ge": lambda left, right: left >= right,
}
_NOT = {True: False, False: True, None: None}
_MAX_DIGITS = 19


def decide(tokens: Sequence[Token], expander: Expander) -> bool | None:
    """Return whether a condition holds, None where the script does not say.

    A command other than a test is not run, so that nobody knows whether it succeeds.
    """
    if not tokens or len(tokens) > MAX_DEPTH * MAX_DEPTH:
        return None
    opening = tokens[0].plain
    if opening == "!":
        return _NOT[decide(tokens[1:], expander)]
    if opening in {"true", ":"}:
        return True
    if opening == "false":
        return False
    if opening not in TESTS:
        return None
    return _decide_any([token for token in tokens if token.plain not in _BRACKETS], expander)


def _decide_any(tokens: Sequence[Token], expander: Expander) -> bool | None:
    results = [_decide_all(part, expander) for part in _split(tokens, "||", "-o")]
    if any(result is True for result in results):
        return True
    return None if any(result is None for result in results) else False


def _decide_all(tokens: Sequence[Token], expander: Expander) -> bool | None:
    results = [_decide_comparison(part, expander) for part in _split(tokens, "&&", "-a")]
    if any(result is False for result in results):
        return False
    return None if any(result is None for result in results) else True


def _split(tokens: Sequence[Token], sign: str, word: str) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token.operator == sign or token.plain == word:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _decide_comparison(tokens: Sequence[Token], expander: Expander) -> bool | None:
    """Return whether one comparison holds."""
    is_negated = bool(tokens) and tokens[0].plain == "!"
    texts = [_expand(token, expander) for token in tokens[is_negated:]]
    result = None
    if len(texts) == 2 and texts[0] in {"-z", "-n"}:  # noqa: PLR2004 - an operator and its operand
        # A variable that the script does not set is not set where it is read.
        is_empty = texts[1].startswith("$") or not texts[1]
        result = is_empty == (texts[0] == "-z")
    elif len(texts) == 3:  # noqa: PLR2004 - two operands and what compares them
        result = _compare(*texts)
    elif len(texts) == 1 and "$" not in texts[0]:
        result = bool(texts[0])
    return _NOT[result] if is_negated else result


def _compare(left: str, sign: str, right: str) -> bool | None:
    if "$" in left or "$" in right:
        return None
    if sign in {"=", "=="}:
        return left == right if "*" not in right else None
    if sign == "!=":
        return left != right if "*" not in right else None
    numbers = [text for text in (left, right) if text.isdecimal() and len(text) < _MAX_DIGITS]
    if sign in _NUMERIC and len(numbers) == len((left, right)):
        return _NUMERIC[sign](int(left), int(right))
    return None


def _expand(token: Token, expander: Expander) -> str:
    return token.operator or " ".join(word.text for word in expander.expand(token))
