"""Shells that a command starts with a text to run."""

from collections.abc import Sequence
from pathlib import PurePosixPath

SHELLS = frozenset({"bash", "sh"})
_WITH_VALUE = frozenset({"--rcfile", "--init-file"})


def find_shell(tokens: Sequence[str]) -> tuple[int, int] | None:
    """Return the places of a shell and its text."""
    for start, word in enumerate(tokens):
        text = _find_text(tokens, start + 1) if PurePosixPath(word).name in SHELLS else None
        if text is not None:
            return start, text
    return None


def _find_text(tokens: Sequence[str], index: int) -> int | None:
    """Return the place of the text behind a shell's options.

    Letters share a word; ``o`` and ``O`` among them take the next one (``bash``, OPTIONS).
    """
    runs_text = False
    while index < len(tokens) and tokens[index].startswith(("-", "+")):
        word = tokens[index]
        is_long = word.startswith("--")
        runs_text |= word.startswith("-") and not is_long and "c" in word
        takes_value = word in _WITH_VALUE if is_long else word.endswith(("o", "O"))
        index += 2 if takes_value else 1
    return index if runs_text and index < len(tokens) else None
