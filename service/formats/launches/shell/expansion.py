"""Expansion of a shell's words by variables that a script assigns.

What is not assigned literally stands as it was written, ``$`` and all; nothing is run.
"""

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from service.formats.launches.shell.lexer import LITERAL, PLAIN, Token
from service.formats.launches.sources.limits import MAX_CHARACTERS, MAX_DEPTH, MAX_WORDS
from service.formats.launches.values.errors import LaunchFormatError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PARAMETER = re.compile(
    r"(?P<name>[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-])"
    r"(\[(?P<index>[@*]|[0-9]{1,4})\])?(?P<operator>:?[-=+?]|\^\^|,,)?(?P<word>.*)",
    re.DOTALL,
)
_ARITHMETIC: Mapping[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
}
_MAX_NUMBER = 2**63
_MAX_EXPRESSION = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellWord:
    """A word after its expansion, and the line that wrote it."""

    text: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """Words of an array, or the one of a scalar."""

    elements: tuple[ShellWord, ...]
    is_array: bool = False


@dataclass(slots=True, kw_only=True)
class Expander:
    """Variables of a script, and how much they may still become."""

    name: str
    variables: dict[str, Variable] = field(default_factory=dict)
    left: int = 4 * MAX_CHARACTERS

    def expand(self, token: Token) -> list[ShellWord]:
        """Return the words that a word becomes: none, one or several."""
        fields = _Fields(line=token.line)
        for segment in token.segments:
            self.charge(len(segment.text), token.line)
            if segment.quote == LITERAL:
                fields.append(segment.text)
                continue
            for text, is_expansion in _split_expansions(segment.text):
                variable = self.resolve(text, token.line) if is_expansion else None
                if variable is None:
                    fields.append(text)
                    continue
                self._append(fields, variable, text, is_split=segment.quote == PLAIN)
        if not token.segments or any(segment.quote != PLAIN for segment in token.segments):
            fields.append("")
        return fields.finish()

    def expand_text(self, text: str, line: int, depth: int = 0) -> str:
        """Return a text in double quotes after its expansion."""
        parts = []
        self.charge(len(text), line)
        for piece, is_expansion in _split_expansions(text):
            variable = self.resolve(piece, line, depth) if is_expansion else None
            parts.append(piece if variable is None else _join(variable))
            self.charge(len(parts[-1]), line)
        return "".join(parts)

    def resolve(self, text: str, line: int, depth: int = 0) -> Variable | None:
        """Return the value of an expansion, None where only a run tells."""
        if depth > MAX_DEPTH:
            message = "expansions are nested too deeply"
            raise LaunchFormatError(message, where=f"{self.name}:{line}")
        if text.startswith("$((") and text.endswith("))"):
            return self._compute(text[3:-2], line, depth)
        if text[:1] == "`" or text.startswith("$("):
            return None
        match = _PARAMETER.fullmatch(text[2:-1] if text.startswith("${") else text[1:])
        if match is None or (match["word"] and match["operator"] is None):
            return None
        variable = self.variables.get(match["name"])
        if variable is not None and match["index"] is not None:
            variable = _index(variable, match["index"])
        return self._apply(match, variable, line, depth)

    def charge(self, amount: int, line: int) -> None:
        """Count characters; refuse too many."""
        self.left -= amount + 1
        if self.left < 0:
            message = "its variables expand to too much text"
            raise LaunchFormatError(message, where=f"{self.name}:{line}")

    def _apply(
        self, match: re.Match[str], variable: Variable | None, line: int, depth: int
    ) -> Variable | None:
        """Return a variable, or what its operator puts in its place."""
        sign = match["operator"] or ""
        is_set = variable is not None and bool(_join(variable) or variable.is_array)
        if sign in {"^^", ",,"}:
            return None if variable is None else _change_case(variable, sign)
        if sign.endswith("+"):
            return self._make_text(match["word"], line, depth) if is_set else _EMPTY
        if sign.endswith(("-", "=")) and not is_set:
            value = self._make_text(match["word"], line, depth)
            if sign.endswith("="):
                self.variables[match["name"]] = value
            return value
        return variable

    def _make_text(self, word: str, line: int, depth: int) -> Variable:
        text = word
        if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
            text = text[1:-1]
        text = text if word[:1] == "'" else self.expand_text(text, line, depth + 1)
        return Variable(elements=(ShellWord(text=text, line=line),))

    def _compute(self, text: str, line: int, depth: int) -> Variable | None:
        """Return the value of an integer expression over variables."""
        if len(text) > _MAX_EXPRESSION:
            return None
        text = self.expand_text(text, line, depth + 1)
        named = {name: self.variables.get(name) for name in _NAME.findall(text)}
        numbers = {
            name: int(joined)
            for name, variable in named.items()
            if variable is not None and (joined := _join(variable)).isdecimal() and len(joined) < 19  # noqa: PLR2004 - digits of 2**63
        }
        if len(text) > _MAX_EXPRESSION:
            return None
        try:
            value = _evaluate(ast.parse(text.strip(), mode="eval").body, numbers)
        except (SyntaxError, ValueError, RecursionError, MemoryError, ZeroDivisionError):
            return None
        return Variable(elements=(ShellWord(text=str(value), line=line),))

    def _append(self, fields: "_Fields", variable: Variable, text: str, *, is_split: bool) -> None:
        """Append a variable as its quotes split it."""
        self.charge(sum(len(item.text) for item in variable.elements), fields.line)
        if variable.is_array and (is_split or "[@]" in text):
            for number, item in enumerate(variable.elements):
                if number:
                    fields.separate()
                _append_text(fields, item.text, item.line, is_split=is_split)
            return
        line = variable.elements[0].line if variable.elements else fields.line
        _append_text(fields, _join(variable), line, is_split=is_split)


@dataclass(slots=True, kw_only=True)
class _Fields:
    """Words that one written word becomes."""

    line: int
    ready: list[ShellWord] = field(default_factory=list)
    current: list[str] | None = None
    current_line: int = 0

    def append(self, text: str, line: int | None = None) -> None:
        """Add text to the current word."""
        if not self.current:
            self.current, self.current_line = [], line or self.line
        self.current.append(text)

    def separate(self) -> None:
        """End the current word, if there is any."""
        if self.current is not None:
            text = "".join(self.current)
            self.ready.append(ShellWord(text=text, line=self.current_line))
        self.current = None

    def finish(self) -> list[ShellWord]:
        """Return all fields."""
        self.separate()
        if len(self.ready) > MAX_WORDS:
            message = f"a command has {MAX_WORDS:,} words at most"
            raise LaunchFormatError(message)
        return self.ready


_EMPTY = Variable(elements=(ShellWord(text="", line=0),))


def _append_text(fields: _Fields, text: str, line: int, *, is_split: bool) -> None:
    if not is_split:
        fields.append(text, line)
        return
    pieces = text.split()
    if text[:1].isspace():
        fields.separate()
    for number, piece in enumerate(pieces):
        if number:
            fields.separate()
        fields.append(piece, line)
    if pieces and text[-1:].isspace():
        fields.separate()


def _join(variable: Variable) -> str:
    return " ".join(item.text for item in variable.elements)


def _index(variable: Variable, index: str) -> Variable:
    if index in "@*":
        return Variable(elements=variable.elements, is_array=True)
    return Variable(elements=variable.elements[int(index) : int(index) + 1])


def _change_case(variable: Variable, sign: str) -> Variable:
    text = _join(variable)
    changed = text.upper() if sign == "^^" else text.lower()
    line = variable.elements[0].line if variable.elements else 0
    return Variable(elements=(ShellWord(text=changed, line=line),))


def _split_expansions(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of a text, and whether each is an expansion."""
    position = 0
    while position < len(text):
        start = next((at for at in range(position, len(text)) if text[at] in "$`"), len(text))
        if start > position:
            yield text[position:start], False
        if start == len(text):
            return
        position = _find_end(text, start)
        yield text[start:position], position > start + 1


def _find_end(text: str, start: int) -> int:
    """Return the position behind an expansion."""
    following = text[start + 1 : start + 2]
    if text[start] == "`":
        return text.find("`", start + 1) + 1 or len(text)
    if following in {"{", "("}:
        closing, depth = ("}" if following == "{" else ")"), 0
        for position in range(start + 1, len(text)):
            depth += (text[position] == following) - (text[position] == closing)
            if depth == 0:
                return position + 1
        return len(text)
    match = _NAME.match(text, start + 1)
    if match is not None:
        return match.end()
    return start + 2 if following and following in "0123456789@*#?!$-" else start + 1


def _evaluate(node: ast.expr, numbers: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            number = value
        case ast.Name(id=name) if name in numbers:
            number = numbers[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            number = -_evaluate(operand, numbers)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _ARITHMETIC:
            compute = _ARITHMETIC[type(sign)]
            number = compute(_evaluate(left, numbers), _evaluate(right, numbers))
        case _:
            message = "not an integer expression"
            raise ValueError(message)
    if abs(number) > _MAX_NUMBER:
        message = "too large a number"
        raise ValueError(message)
    return number
