"""Shells that a command starts with a text to run."""

from pathlib import PurePosixPath


def find_shell(tokens: list[str]) -> int | None:
    """Return the place of the text of ``bash -c``, None without."""
    is_shell = False
    for index, word in enumerate(tokens[:-1]):
        if is_shell and word.startswith("-") and word.endswith("c"):
            return index + 1
        is_shell = PurePosixPath(word).name in {"bash", "sh"} or (is_shell and word.startswith("-"))
    return None


def drop_shell(tokens: list[str]) -> list[str]:
    """Return the words before a shell and its options."""
    end = len(tokens)
    while end and tokens[end - 1].startswith("-"):
        end -= 1
    return tokens[: end - 1]
