"""Words and operators of a shell script, not yet expanded."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from service.formats.launches.values.errors import LaunchFormatError

MAX_DEPTH = 32
MAX_SIGNS = 100_000
"""Blanks, operators, quotes and expansions: a second of parsing. Scripts that people write have
some thousand.
"""
_OPERATOR = re.compile(r"&>>|&&|\|\||;;|>>|&>|>&|<<<|<<-|<<|<&|<\(|>\(|[\n;&|()<>]")
_BLANKS = re.compile(r"[ \t]+")
_PLAIN = re.compile(r"""[^ \t\n;&|()<>"'\\$`]+""")
_QUOTED = re.compile(r"""[^"\\$`]*""")
_SPECIAL = frozenset("@*#?$!-0123456789")
_CLOSING = {"{": "}", "(": ")"}


class PieceKind(StrEnum):
    """Kind of a part of a word."""

    TEXT = "text"
    PARAMETER = "parameter"
    ARITHMETIC = "arithmetic"
    COMMAND = "command"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Part of a word: text, or the inside of an expansion."""

    kind: PieceKind
    text: str
    is_quoted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A word of parts; ``line`` counts from 1."""

    pieces: tuple[Piece, ...]
    line: int

    @property
    def literal(self) -> str:
        """Its unquoted text where it is nothing else, else empty."""
        plain = all(p.kind is PieceKind.TEXT and not p.is_quoted for p in self.pieces)
        return "".join(piece.text for piece in self.pieces) if plain else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """An operator; ``is_glued`` says that no blank stands before it."""

    text: str
    line: int
    is_glued: bool = False
    document: Word | None = field(default=None)
    """What a here-document holds."""


Token = Word | Operator


def list_tokens(name: str, text: str) -> list[Token]:
    """Return the words and operators of a script.

    Raises LaunchFormatError where a quote or an expansion does not end, and for a script that is
    too long.
    """
    return list(_Lexer(name, text).iter_tokens())


def make_word(name: str, text: str, line: int) -> Word:
    """Return a text as one word in double quotes."""
    lexer = _Lexer(name, text)
    lexer.line = line
    return Word(pieces=tuple(lexer.read_double_quoted(end=None)), line=line)


class _Lexer:
    """Position in a script."""

    def __init__(self, name: str, text: str) -> None:
        """Begin at its first character."""
        self.name, self.text = name, text.replace("\r\n", "\n")
        self.position, self.line, self.num_signs = 0, 1, 0

    def iter_tokens(self) -> Iterator[Token]:
        """Yield what stands in the script; a here-document belongs to its operator."""
        batch: list[Token] = []
        waiting: list[int] = []
        while (token := self._read_token()) is not None:
            batch.append(token)
            if isinstance(token, Operator) and token.text in {"<<", "<<-"}:
                waiting.append(len(batch) - 1)
            elif isinstance(token, Operator) and token.text == "\n":
                for index in waiting:
                    batch[index] = self._read_document(batch[index], batch[index + 1])
                yield from batch
                batch, waiting = [], []
        yield from batch

    def _read_token(self) -> Token | None:
        is_glued = not self._skip_blanks()
        if self.position >= len(self.text):
            return None
        operator = _OPERATOR.match(self.text, self.position)
        if operator is None:
            return self._read_word()
        token = Operator(text=operator[0], line=self.line, is_glued=is_glued)
        self._advance(len(operator[0]))
        return token

    def _skip_blanks(self) -> bool:
        """Pass blanks, continued lines and a comment; return whether there were any."""
        start = self.position
        while self.position < len(self.text):
            blanks = _BLANKS.match(self.text, self.position)
            if blanks is not None:
                self._advance(len(blanks[0]), num_signs=len(blanks[0]))
            elif self.text.startswith("\\\n", self.position):
                self._advance(2)
            elif self.text[self.position] == "#" and self._begins_word():
                end = self.text.find("\n", self.position)
                self.position = len(self.text) if end < 0 else end
            else:
                break
        return self.position > start

    def _begins_word(self) -> bool:
        return self.position == 0 or self.text[self.position - 1] in " \t\n;&|()"

    def _advance(self, count: int, *, num_signs: int = 1) -> None:
        self.num_signs += num_signs
        if self.num_signs > MAX_SIGNS:
            message = f"has more than {MAX_SIGNS:,} blanks, operators, quotes and expansions"
            raise LaunchFormatError(message, where=self.name)
        self.line += self.text.count("\n", self.position, self.position + count)
        self.position += count

    def _read_word(self) -> Word:
        line, pieces = self.line, list[Piece]()
        while self.position < len(self.text):
            sign = self.text[self.position]
            if sign in " \t\n;&|()<>":
                break
            pieces += self._read_pieces(sign)
        return Word(pieces=tuple(pieces), line=line)

    def _read_pieces(self, sign: str) -> list[Piece]:
        if sign == "'":
            return [self._read_until("'", is_quoted=True)]
        if sign == '"':
            self._advance(1)
            return self.read_double_quoted(end='"') or [
                Piece(kind=PieceKind.TEXT, text="", is_quoted=True)
            ]
        if sign == "\\":
            following = self.text[self.position + 1 : self.position + 2]
            self._advance(2)
            text = "" if following == "\n" else following
            return [Piece(kind=PieceKind.TEXT, text=text, is_quoted=bool(text))]
        if sign in "$`":
            return [self._read_expansion(is_quoted=False)]
        plain = _PLAIN.match(self.text, self.position)
        text = "" if plain is None else plain[0]
        self.position += len(text)
        return [Piece(kind=PieceKind.TEXT, text=text)]

    def _read_until(self, end: str, *, is_quoted: bool) -> Piece:
        stop = self.text.find(end, self.position + 1)
        if stop < 0:
            raise self._refuse(f"a {end} that closes the one here")
        text = self.text[self.position + 1 : stop]
        self._advance(stop + 1 - self.position)
        return Piece(kind=PieceKind.TEXT, text=text, is_quoted=is_quoted)

    def read_double_quoted(self, *, end: str | None) -> list[Piece]:
        """Return parts up to a closing quote, or to the end."""
        pieces: list[Piece] = []
        start = self.line
        while self.position < len(self.text):
            sign = self.text[self.position]
            if sign == end:
                self._advance(1)
                return pieces
            if sign == "\\":
                following = self.text[self.position + 1 : self.position + 2]
                text = "" if following == "\n" else following
                text = text if following in '"\\$`\n' else sign + following
                pieces.append(Piece(kind=PieceKind.TEXT, text=text, is_quoted=True))
                self._advance(2)
            elif sign in "$`":
                pieces.append(self._read_expansion(is_quoted=True))
            else:
                stop = self._find_special()
                text = self.text[self.position : stop]
                pieces.append(Piece(kind=PieceKind.TEXT, text=text, is_quoted=True))
                self._advance(stop - self.position)
        if end is not None:
            self.line = start
            raise self._refuse(f"a {end} that closes the one here")
        return pieces

    def _find_special(self) -> int:
        plain = _QUOTED.match(self.text, self.position + 1)
        return self.position + 1 if plain is None else plain.end()

    def _read_expansion(self, *, is_quoted: bool) -> Piece:
        if self.text[self.position] == "`":
            text = self._read_until("`", is_quoted=is_quoted).text
            return Piece(kind=PieceKind.COMMAND, text=text, is_quoted=is_quoted)
        following = self.text[self.position + 1 : self.position + 2]
        if self.text.startswith("$((", self.position):
            text = self._read_nested(2)
            return Piece(kind=PieceKind.ARITHMETIC, text=text[1:-1], is_quoted=is_quoted)
        if following in _CLOSING:
            kind = PieceKind.PARAMETER if following == "{" else PieceKind.COMMAND
            return Piece(kind=kind, text=self._read_nested(2), is_quoted=is_quoted)
        if following == "'" and not is_quoted:
            self._advance(1)
            return self._read_until("'", is_quoted=True)
        return self._read_name(following, is_quoted=is_quoted)

    def _read_name(self, following: str, *, is_quoted: bool) -> Piece:
        stop = self.position + 1
        if following in _SPECIAL and following:
            stop += 1
        else:
            while stop < len(self.text) and (self.text[stop].isalnum() or self.text[stop] == "_"):
                stop += 1
        name = self.text[self.position + 1 : stop]
        self._advance(stop - self.position)
        kind = PieceKind.PARAMETER if name else PieceKind.TEXT
        return Piece(kind=kind, text=name or "$", is_quoted=is_quoted)

    def _read_nested(self, skipped: int) -> str:
        """Return what stands between an opening sign and its own closing one."""
        opening = self.text[self.position + 1]
        closing, depth, stop = _CLOSING[opening], 1, self.position + skipped
        quote = ""
        while stop < len(self.text) and depth:
            sign = self.text[stop]
            if sign == "\\":
                stop += 1
            elif quote:
                quote = "" if sign == quote else quote
            elif sign in "'\"":
                quote = sign
            else:
                depth += (sign == opening) - (sign == closing)
            stop += 1
        if depth:
            raise self._refuse(f"a {closing} that closes the one here")
        text = self.text[self.position + skipped : stop - 1]
        self._advance(stop - self.position)
        return text

    def _read_document(self, operator: Token, delimiter: Token) -> Operator:
        """Return a here-document's operator with its text."""
        pieces = delimiter.pieces if isinstance(delimiter, Word) else ()
        end = "".join(piece.text for piece in pieces)
        strips = isinstance(operator, Operator) and operator.text == "<<-"
        line, lines = self.line, list[str]()
        while self.position < len(self.text):
            stop = self.text.find("\n", self.position)
            stop = len(self.text) if stop < 0 else stop
            row = self.text[self.position : stop]
            self._advance(min(stop + 1, len(self.text)) - self.position)
            row = row.lstrip("\t") if strips else row
            if row == end:
                break
            lines.append(row)
        content = "\n".join(lines)
        if any(piece.is_quoted for piece in pieces):
            parts: tuple[Piece, ...] = (Piece(kind=PieceKind.TEXT, text=content, is_quoted=True),)
        else:
            parts = make_word(self.name, content, line).pieces
        word = Word(pieces=parts, line=line)
        return Operator(text="<<", line=operator.line, document=word)

    def _refuse(self, expected: str) -> LaunchFormatError:
        message = f"is no shell script that can be read; expected {expected}"
        return LaunchFormatError(message, where=f"{self.name}:{self.line}")
