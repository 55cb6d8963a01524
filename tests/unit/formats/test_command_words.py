"""Words of command lines."""

import shlex
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.formats.command_words import split_words

TEXTS = st.text(st.sampled_from("ab#$ \t\n\r'\"\\\u00a0é"), max_size=24)


def try_splitting(split: Callable[..., list[str]], text: str, *, comments: bool) -> object:
    """Return the words of a text, or that it has none."""
    try:
        return split(text, comments=comments)
    except ValueError:
        return ValueError


@given(text=TEXTS, comments=st.booleans())
def test_words_are_those_of_shlex(*, text: str, comments: bool) -> None:
    """Whatever is quoted, escaped, commented or left open."""
    words = try_splitting(split_words, text, comments=comments)

    assert words == try_splitting(shlex.split, text, comments=comments)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ('a \'b c\' "d\\"e\\f" g\\ h', ["a", "b c", 'd"e\\f', "g h"]),
        ("''", [""]),
        ("a#b\nc", ["a#b", "c"]),
    ],
)
def test_quotes_and_escapes_are_read(text: str, words: list[str]) -> None:
    """As a POSIX shell reads them."""
    assert split_words(text) == words
