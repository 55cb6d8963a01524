"""Pasted commands: joined lines, and words as a shell cuts them."""

import re
from collections.abc import Iterator
from itertools import chain

from service.formats.launches.shell.inner_shells import find_shell, open_entrypoint
from service.formats.launches.sources.limits import MAX_COMMAND_CHARACTERS, MAX_WORDS, check_size
from service.formats.launches.values.errors import LaunchFormatError

_QUOTED = r"""'[^']*+'|"(?:[^"\\]|\\.)*+\""""
_COMMENT = r"(?<![^\s;&|()])#[^\r\n]*+"
_LINES = re.compile(
    rf"{_QUOTED}|(?P<continued>\\\r?\n)"
    rf"|(?:(?:\\[ \t]++)?(?:{_COMMENT})?\r?\n[ \t]*+)++(?P<option>(?=--?\w))?"
    rf"|{_COMMENT}|\\.",
    re.DOTALL,
)
"""Ends of lines, and what holds none that count."""
_PART = re.compile(
    r"(?P<blank>\s++)|'(?P<single>[^']*+)'|\"(?P<double>(?:[^\"\\]|\\.)*+)\""
    rf"|\\(?P<escaped>.)|(?P<comment>{_COMMENT})|(?P<plain>[^\s'\"\\]++)",
    re.DOTALL,
)
_ESCAPED = re.compile(r"\\([\"\\])")
"""What a backslash takes its meaning from between double quotes."""
_OPERATOR = re.compile(r"\d*>>?(&\d|\S*)|&>\S*|<|\|[|&]?|&|[()]|(?=\S*(?:&&|;))\S++")
"""A word of a shell that belongs to no program: of a list, a pipe, a file."""


def split_command(text: str) -> tuple[str, ...]:
    """Return the words of one command of a shell.

    Continued lines are joined, comments left out. What the shell would expand stands as it is.
    """
    check_size("the command", text)
    if len(text) > MAX_COMMAND_CHARACTERS:
        message = (
            f"a command has {MAX_COMMAND_CHARACTERS:,} characters at most, not {len(text):,}; "
            "hand in a script as a file"
        )
        raise LaunchFormatError(message, field="command")
    tokens: list[str] = []
    parts: list[str] = []
    for match in chain(_iter_parts(join_lines(text)), (None,)):
        if match is not None and match.lastgroup not in {"blank", "comment"}:
            part = str(match[match.lastgroup or 0])
            parts.append(_ESCAPED.sub(r"\1", part) if match.lastgroup == "double" else part)
        elif parts:
            tokens.append("".join(parts))
            parts = []
        if len(tokens) > MAX_WORDS:
            message = f"a command has {MAX_WORDS:,} words at most"
            raise LaunchFormatError(message, field="command")
    return tuple(tokens)


def _iter_parts(text: str) -> Iterator[re.Match[str]]:
    """Yield the parts of words, blanks and comments."""
    end = 0
    while end < len(text):
        match = _PART.match(text, end)
        if match is None:
            what = "escaped character" if text[end] == "\\" else "closing quotation"
            message = f"the command cannot be cut into words: No {what}"
            raise LaunchFormatError(message, field="command")
        yield match
        end = match.end()


def needs_shell(text: str) -> bool:
    """Return whether a command is a shell's.

    Its lists, pipes and variables are no words of a program. A line that begins with an option
    goes on with the one before it, however it was pasted.
    """
    joined = join_lines(text)
    begun = joined.strip()
    if "\n" in begun or "$" in begun or begun.startswith("("):
        return True
    plain = (match["plain"] for match in _iter_parts(joined))
    operators = any(part and _OPERATOR.fullmatch(part) for part in plain)
    return operators or find_shell(open_entrypoint(split_command(text))) is not None


def join_lines(text: str) -> str:
    """Return a text with its continued lines joined.

    A line goes on by its end, or by an option at the beginning of the next one; comments between
    them are left out.
    """
    return _LINES.sub(_join, text)


def _join(match: re.Match[str]) -> str:
    is_joined = match["continued"] is not None or match["option"] is not None
    return " " if is_joined else match[0]
