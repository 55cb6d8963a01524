"""Shells that a command starts with a text to run."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

SHELLS = frozenset({"bash", "sh"})
_ENTRYPOINT = "--entrypoint"
_WRAP = "--wrap"
_TEXT = re.compile(r"-[a-z]{0,6}c")
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


def name_arguments(words: Sequence[str]) -> dict[str, str]:
    """Return the variables of words behind a shell's text: ``$0``, ``$1``, ….

    (``bash``, ``-c``.)
    """
    return {str(number): word for number, word in enumerate(words)}


def open_entrypoint(tokens: Sequence[str]) -> Sequence[str]:
    """Return words with a shell as entry point behind the image.

    ``docker run --entrypoint bash IMAGE -c …`` runs ``bash -c …``, and ``sbatch --wrap TEXT`` runs
    ``sh -c TEXT``.
    """
    tokens = _open_wrap(tokens)
    for index, word in enumerate(tokens):
        name, equals, value = word.partition("=")
        if name != _ENTRYPOINT:
            continue
        shell = value if equals else "".join(tokens[index + 1 : index + 2])
        remaining = tokens[index + (1 if equals else 2) :]
        # What the text runs has no entry point: env runs it as it is.
        opened = [*tokens[:index], _ENTRYPOINT, "env", *remaining]
        if PurePosixPath(shell).name not in SHELLS:
            return tokens
        for place in range(index + 2, len(opened) - 1):
            is_first = not opened[place - 1].startswith("-")
            if is_first and _TEXT.fullmatch(opened[place]):
                return [*opened[:place], shell, *opened[place:]]
    return tokens


def _open_wrap(tokens: Sequence[str]) -> Sequence[str]:
    """Return words with the shell of ``sbatch --wrap`` behind its options."""
    programs = [PurePosixPath(word).name for word in tokens]
    if "sbatch" not in programs:
        return tokens
    for index in range(programs.index("sbatch") + 1, len(tokens)):
        name, equals, text = tokens[index].partition("=")
        if name == _WRAP and (equals or index + 1 < len(tokens)):
            end = index + (1 if equals else 2)
            shell = ("sh", "-c", text if equals else tokens[index + 1])
            return [*tokens[:index], *tokens[end:], *shell]
    return tokens
