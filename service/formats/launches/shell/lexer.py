"""Tokens of a shell script: words with their quotes, operators, here-documents.

POSIX Shell Command Language, sections 2.2 (quoting), 2.3 (token recognition) and 2.7.4
(here-documents); bash's arrays. A script is read, never run.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from service.formats.launches.sources.limits import check_size
from service.formats.launches.values.errors import LaunchFormatError

PLAIN, DOUBLE, LITERAL = "", '"', "'"
"""Quotes of a segment: none, double, and single or escaped."""
_OPERATORS = ("<<<", "<<-", "&>>", ";;&", "&&", "||", ";;", ";&", "<<", ">>", "&>", ">&", "<&")
_SINGLE = frozenset("\n;&|()<>")
_BLANKS = frozenset(" \t\r")
_CLOSING = {"(": ")", "{": "}"}
_ORDINARY = re.compile(r"[A-Za-z0-9_./,:=%@+-]+")
_ESCAPED = frozenset('"\\$`')
REDIRECTIONS = frozenset({"<", ">", ">>", "&>", "&>>", ">&", "<&", "<<<"})
"""Operators that the name of a file follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A part of a word with the quotes around it."""

    text: str
    quote: str = PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A word of segments, an operator, or the body of a here-document."""

    line: int
    segments: tuple[Segment, ...] = ()
    operator: str = ""
    is_body: bool = False

    @property
    def plain(self) -> str:
        """Text of a word without any quotes; empty for others."""
        first = self.segments[0] if len(self.segments) == 1 else None
        return first.text if first is not None and first.quote == PLAIN else ""


@dataclass(slots=True, kw_only=True)
class _Lexer:
    """Position in a text, and the here-documents whose bodies follow."""

    name: str
    text: str
    position: int = 0
    line: int = 1
    pieces: list[tuple[str, list[str]]] = field(default_factory=list)
    start: int = 1
    bodies: list[tuple[str, bool]] = field(default_factory=list)
    expects: str = ""
    in_array: bool = False

    def take(self, count: int = 1) -> str:
        """Return the next characters and pass them."""
        text = self.text[self.position : self.position + count]
        self.position += count
        self.line += text.count("\n")
        return text

    def add(self, text: str, quote: str) -> None:
        """Add text to the word."""
        if not self.pieces:
            self.start = self.line
        if self.pieces and self.pieces[-1][0] == quote:
            self.pieces[-1][1].append(text)
        else:
            self.pieces.append((quote, [text]))

    def refuse(self, line: int, missing: str) -> LaunchFormatError:
        """Return the refusal of something that is never closed."""
        return LaunchFormatError(f"{missing} is never closed", where=f"{self.name}:{line}")

    def find_end(self, opening: str, start: int) -> int:
        """Return the position behind what closes an expansion."""
        if opening == "`":
            end = self.text.find("`", start + 1)
            if end < 0:
                raise self.refuse(self.line, "`")
            return end + 1
        closing, depth = _CLOSING[opening], 0
        for position in range(start, len(self.text)):
            depth += (self.text[position] == opening) - (self.text[position] == closing)
            if depth == 0:
                return position + 1
        raise self.refuse(self.line, f"${opening}")


def iter_tokens(name: str, text: str) -> Iterator[Token]:
    """Yield the tokens of a script.

    Raises LaunchFormatError for a quote or an expansion that is never closed.
    """
    check_size(name, text)
    lexer = _Lexer(name=name, text=text)
    while lexer.position < len(text):
        character = text[lexer.position]
        operator = _find_operator(text, lexer.position)
        if character in _BLANKS or text.startswith("\\\n", lexer.position):
            yield from _finish_word(lexer)
            lexer.take(2 if character == "\\" else 1)
        elif character == "#" and not lexer.pieces:
            end = text.find("\n", lexer.position)
            lexer.position = len(text) if end < 0 else end
        elif operator:
            yield from _finish_word(lexer, before=operator)
            yield from _take_operator(lexer, operator)
        else:
            _take_characters(lexer)
    yield from _finish_word(lexer)


def _find_operator(text: str, position: int) -> str:
    if text[position] not in _SINGLE:
        return ""
    longest = next((longer for longer in _OPERATORS if text.startswith(longer, position)), "")
    return longest or text[position]


def _finish_word(lexer: _Lexer, before: str = "") -> Iterator[Token]:
    """Yield the word that ends here; a redirected descriptor is dropped."""
    if not lexer.pieces:
        return
    segments = tuple(Segment(text="".join(texts), quote=quote) for quote, texts in lexer.pieces)
    token = Token(line=lexer.start, segments=segments)
    lexer.pieces = []
    if lexer.expects:
        delimiter = "".join(segment.text for segment in token.segments)
        is_quoted = any(segment.quote for segment in token.segments)
        lexer.bodies.append((delimiter, is_quoted))
        lexer.expects = ""
        return
    if before[:1] in {"<", ">"} and token.plain.isdecimal():
        return
    yield token


def _take_operator(lexer: _Lexer, operator: str) -> Iterator[Token]:
    line = lexer.line
    if operator == "(" and lexer.text[lexer.position - 1 : lexer.position] == "=":
        lexer.in_array = True
    elif operator == ")":
        lexer.in_array = False
    lexer.take(len(operator))
    if operator in {"<<", "<<-"}:
        lexer.expects = operator
        return
    if operator == "\n" and lexer.in_array:
        return
    yield from (_read_bodies(lexer) if operator == "\n" else ())
    yield Token(line=line, operator=operator)


def _read_bodies(lexer: _Lexer) -> Iterator[Token]:
    """Yield the bodies of the here-documents of the line that ended."""
    for delimiter, is_quoted in lexer.bodies:
        line, lines = lexer.line, []
        while lexer.position < len(lexer.text):
            end = lexer.text.find("\n", lexer.position)
            end = len(lexer.text) if end < 0 else end
            text = lexer.take(end - lexer.position)
            lexer.take()
            if text.strip("\t\r ") == delimiter:
                break
            lines.append(text)
        body = Segment(text="\n".join(lines), quote=LITERAL if is_quoted else DOUBLE)
        yield Token(line=line, segments=(body,), is_body=True)
    lexer.bodies = []


def _take_characters(lexer: _Lexer) -> None:
    """Add the next characters of a word with their quotes."""
    character = lexer.take()
    if character == "\\":
        lexer.add(lexer.take(), LITERAL)
    elif character == "'":
        end = lexer.text.find("'", lexer.position)
        if end < 0:
            raise lexer.refuse(lexer.line, "'")
        lexer.add(lexer.take(end - lexer.position), LITERAL)
        lexer.take()
    elif character == '"':
        _take_double(lexer)
    else:
        lexer.position -= 1
        lexer.add(_take_piece(lexer), PLAIN)


def _take_piece(lexer: _Lexer) -> str:
    """Return ordinary characters, or an expansion up to its end."""
    text, start = lexer.text, lexer.position
    run = _ORDINARY.match(text, start)
    if run is not None:
        return lexer.take(run.end() - start)
    is_expansion = text[start] == "$" and text[start + 1 : start + 2] in _CLOSING
    if text[start] == "`" or is_expansion:
        opening = start + 1 if is_expansion else start
        return lexer.take(lexer.find_end(text[opening], opening) - start)
    return lexer.take()


def _take_double(lexer: _Lexer) -> None:
    line = lexer.line
    lexer.add("", DOUBLE)
    while lexer.position < len(lexer.text):
        character = lexer.text[lexer.position]
        if character == '"':
            lexer.take()
            return
        following = lexer.text[lexer.position + 1 : lexer.position + 2]
        if character == "\\" and following == "\n":
            lexer.take(2)
        elif character == "\\" and following in _ESCAPED and following:
            lexer.take()
            lexer.add(lexer.take(), LITERAL)
        else:
            lexer.add(_take_piece(lexer), DOUBLE)
    raise lexer.refuse(line, '"')
