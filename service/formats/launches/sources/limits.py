"""Bounds on what is handed in."""

from collections.abc import Sequence

from service.formats.launches.values.errors import LaunchFormatError

MAX_FILES = 16
MAX_CHARACTERS = 1_000_000
"""Of all files and the command together: launch files have kilobytes."""
MAX_COMMAND_CHARACTERS = 131_072
"""Of a command in one text: Linux takes no longer argument (``execve``, ``MAX_ARG_STRLEN``)."""
MAX_DEPTH = 64
MAX_NODES = 50_000
"""Values of one document, those that an alias repeats counted each time."""
MAX_WORDS = 10_000


def check_words(tokens: Sequence[str], where: str) -> None:
    """Refuse a command of too many words."""
    if len(tokens) > MAX_WORDS:
        message = f"a command has {MAX_WORDS:,} words at most, not {len(tokens):,}"
        raise LaunchFormatError(message, where=where, field="command")


def check_size(name: str, text: str) -> None:
    """Refuse a text that is too long, or no text."""
    if len(text) > MAX_CHARACTERS:
        message = (
            f"{name} has {len(text):,} characters; a launch file has {MAX_CHARACTERS:,} at most"
        )
        raise LaunchFormatError(message)
    if "\0" in text:
        message = f"{name} holds a NUL character; expected text"
        raise LaunchFormatError(message)
