"""Variables of a shell script, and words in which they stand."""

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

from service.formats.launches.shell.tokens import MAX_DEPTH, Piece, PieceKind, Word, make_word
from service.formats.launches.values.errors import LaunchFormatError

MAX_CHARACTERS = 200_000
"""Of a value that variables make of each other."""
MAX_WORK = 2_000_000
"""Characters of all words of a run: twice what a launch may hold."""
UNKNOWN = re.compile(r"\$[{(]")
"""Begins what a script takes from outside, as it stands in an expanded word."""
_OPEN = re.compile(r"\$\{[^{}]*\}|\$\([^()]*\)")
_PARAMETER = re.compile(
    r"(?P<count>#?)(?P<name>[A-Za-z_]\w*|\d+|[@*#?$!-])(?:\[(?P<index>[^\]]*)\])?(?P<rest>.*)",
    re.DOTALL,
)
_OPERATION = re.compile(r"(:?[-=+?])(.*)", re.DOTALL)
_TRIM = re.compile(r"(##?|%%?)(.*)", re.DOTALL)
_ARITHMETIC: Mapping[type[ast.AST], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
}
_NAME = re.compile(r"(?<![\w{$])[A-Za-z_]\w*")
_NUMBERS = re.compile(r"\s*\d+(\s+[+*/%-]\s+\d+)*\s*")
"""Operands of ``expr``, each a word of its own."""
_MAX_SUM = 200
_MAX_DIGITS = 18
"""Of a whole number that a shell's 64 bits hold."""

Value = str | tuple[str, ...]


class Variables:
    """Values by name; what nobody assigned is not known.

    A script is read as started without arguments, and with no variable from outside.
    """

    def __init__(self, name: str) -> None:
        """Begin with none; ``name`` is the script's."""
        self.name = name
        self.values: dict[str, Value] = {}
        self.exported: set[str] = set()
        self._depth = 0
        self._work = 0

    def assign(self, name: str, value: Value, *, appends: bool = False) -> None:
        """Set a variable, or add to it."""
        former = self.values.get(name, "")
        if appends and isinstance(value, tuple):
            value = (*((former,) if isinstance(former, str) and former else former), *value)
        elif appends and isinstance(former, str) and isinstance(value, str):
            value = former + value
        if _measure(value) > MAX_CHARACTERS:
            message = f"{name} grows beyond {MAX_CHARACTERS:,} characters"
            raise LaunchFormatError(message, where=self.name)
        self.values[name] = value

    def forget(self, name: str) -> None:
        """Make a variable one that is not known."""
        self.values[name] = _mark(name)

    def expand(self, word: Word) -> list[str]:
        """Return the words that a word becomes; lists and blanks make several."""
        fields = [""]
        keeps = False
        for piece in word.pieces:
            value = self._expand_piece(piece)
            if isinstance(value, tuple):
                keeps = keeps or bool(value)
                _extend(fields, list(value), breaks=False)
            elif piece.is_quoted or piece.kind is PieceKind.TEXT:
                keeps = True
                fields[-1] += value
            else:
                keeps = keeps or bool(value.strip())
                _extend(fields, value.split(), breaks=value[:1].isspace() and bool(fields[-1]))
        if _measure(fields) > MAX_CHARACTERS:
            message = f"a word grows beyond {MAX_CHARACTERS:,} characters"
            raise LaunchFormatError(message, where=f"{self.name}:{word.line}")
        return fields if keeps else []

    def join(self, word: Word) -> str:
        """Return the one text that a word becomes, as in an assignment."""
        parts = [self._expand_piece(piece) for piece in word.pieces]
        return "".join(part if isinstance(part, str) else " ".join(part) for part in parts)

    def _join_text(self, text: str) -> str:
        """Return what a text within an expansion becomes."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            message = "has too many expansions within expansions"
            raise LaunchFormatError(message, where=self.name)
        joined = self.join(make_word(self.name, text, 1))
        self._depth -= 1
        return joined

    def _expand_piece(self, piece: Piece) -> Value:
        value = self._get_value(piece)
        self._count(_measure(value) + 1)
        return value

    def _count(self, work: int) -> None:
        self._work += work
        if self._work > MAX_WORK:
            message = f"its words grow beyond {MAX_WORK:,} characters"
            raise LaunchFormatError(message, where=self.name)

    def _get_value(self, piece: Piece) -> Value:
        if piece.kind is PieceKind.TEXT:
            return piece.text
        if piece.kind is PieceKind.COMMAND:
            program, _, operands = piece.text.strip().partition(" ")
            total = self._sum(operands) if program == "expr" else None
            return f"$({program.split()[0] if program else ''})" if total is None else total
        if piece.kind is PieceKind.ARITHMETIC:
            return self._calculate(piece.text)
        return self._expand_parameter(piece.text)

    def _expand_parameter(self, text: str) -> Value:
        match = _PARAMETER.fullmatch(text)
        if match is None:
            return _mark("_".join(text.split())[:40])
        name, operator_text = match["name"], match["rest"]
        value = self.list_arguments() if name in {"@", "*"} else self.values.get(name)
        if value is None and name.isdecimal():
            value = _mark(name)
        if match["count"]:
            return str(len(value)) if isinstance(value, tuple) and name != "@" else _mark(text)
        if isinstance(value, tuple) and match["index"] not in {"@", "*"} and name not in {"@", "*"}:
            value = self._index(value, match["index"])
        operation = _OPERATION.fullmatch(operator_text)
        if operation is not None:
            return self._apply_default(name, value, operation[1], operation[2])
        if value is None:
            return _mark(name)
        return self._trim(value, operator_text, name) if operator_text else value

    def list_arguments(self) -> tuple[str, ...]:
        """Return the numbered arguments of a script, function or shell."""
        arguments: list[str] = []
        while isinstance(value := self.values.get(str(len(arguments) + 1)), str):
            arguments.append(value)
        return tuple(arguments)

    def shift(self, words: Sequence[str]) -> None:
        """Leave out the first arguments, one unless a number is said."""
        number = read_number(words[0]) if words else 1
        remaining = self.list_arguments()[number or 0 :]
        for name in [name for name in self.values if name.isdecimal() and name != "0"]:
            del self.values[name]
        self.values |= {str(place): word for place, word in enumerate(remaining, 1)}

    def _index(self, values: Sequence[str], index: str | None) -> str | None:
        number = 0 if index is None else read_number(index)
        return values[number] if number is not None and number < len(values) else None

    def _apply_default(self, name: str, value: Value | None, sign: str, default: str) -> Value:
        """Return ``${NAME:-default}`` and its like."""
        is_unset = value is None or value == _mark(name)
        if is_unset or (sign.startswith(":") and not value):
            if sign[-1] in "-=":
                expanded = self._join_text(_unquote(default))
                if sign[-1] == "=":
                    self.assign(name, expanded)
                return expanded
            return "" if sign[-1] == "+" else _mark(name)
        if sign[-1] == "+":
            return self._join_text(_unquote(default))
        return "" if value is None else value

    def _calculate(self, text: str) -> str:
        """Return a sum of whole numbers, or what stands for it."""
        expanded = self._join_text(text)
        if len(expanded) <= _MAX_SUM:
            expanded = _NAME.sub(self._get_number, expanded)
        if len(expanded) > _MAX_SUM:
            return _mark("sum")
        try:
            return str(_evaluate(ast.parse(expanded.strip(), mode="eval").body))
        except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
            return _mark("sum")

    def _sum(self, operands: str) -> str | None:
        """Return what ``expr`` writes, None for more than whole numbers."""
        expanded = self._join_text(operands.replace("\\*", "*"))
        is_plain = _NUMBERS.fullmatch(expanded) is not None and len(expanded) <= _MAX_SUM
        total = self._calculate(expanded) if is_plain else _mark("sum")
        return None if is_unknown(total) else total

    def _get_number(self, match: re.Match[str]) -> str:
        value = self.values.get(match[0])
        return value if isinstance(value, str) and len(value) <= _MAX_SUM else match[0]

    def _trim(self, value: Value, operation: str, name: str) -> Value:
        """Return a value without a pattern at its start or end."""
        match = _TRIM.fullmatch(operation)
        if match is None or not isinstance(value, str) or is_unknown(value):
            return _mark(name)
        sign, pattern = match.groups()
        cuts = range(len(value) + 1)
        at_start = sign.startswith("#")
        for cut in cuts if (len(sign) == 1) == at_start else reversed(cuts):
            part = value[:cut] if at_start else value[cut:]
            self._count(len(part))
            if fnmatchcase(part, pattern):
                return value[cut:] if at_start else value[:cut]
        return value


def read_number(text: str) -> int | None:
    """Return a whole number, None for any other text."""
    return int(text) if text.isdecimal() and len(text) <= _MAX_DIGITS else None


def is_unknown(text: str) -> bool:
    """Return whether a word holds what the script takes from outside."""
    return UNKNOWN.search(text) is not None


def is_open(text: str) -> bool:
    """Return whether a word is nothing but taken from outside."""
    return _OPEN.fullmatch(text) is not None


def is_argument(text: str) -> bool:
    """Return whether a text is an argument of the script."""
    return re.fullmatch(r"\$\{\d+\}", text) is not None


def is_variable(text: str) -> bool:
    """Return whether a text is a variable from outside."""
    return re.fullmatch(r"\$\{[A-Za-z_]\w*\}", text) is not None


def _measure(value: Value | list[str]) -> int:
    """Return the characters of a value, one more for each entry."""
    return len(value) if isinstance(value, str) else len(value) + sum(map(len, value))


def _mark(name: str) -> str:
    return f"${{{name}}}"


def _unquote(text: str) -> str:
    for quote in "\"'":
        if len(text) > 1 and text[0] == text[-1] == quote:
            return text[1:-1]
    return text


def _extend(fields: list[str], values: list[str], *, breaks: bool) -> None:
    if not values:
        return
    if breaks:
        fields.append("")
    fields[-1] += values[0]
    fields += values[1:]


def _evaluate(node: ast.AST) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        return _ARITHMETIC[type(node.op)](_evaluate(node.left), _evaluate(node.right))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluate(node.operand)
    raise ValueError
