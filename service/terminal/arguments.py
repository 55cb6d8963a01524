"""Arguments of the command line: refused with the nearest known name, never abbreviated, never guessed, never said twice."""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

FITS = 0
DOES_NOT_FIT = 1
ERROR = 2


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that names the nearest flag, takes each once, and ends with code 2 in one line."""

    def __init__(self, *, prog: str, description: str | None = None) -> None:
        """Take no abbreviations: a flag that is added later would change what they mean."""
        super().__init__(prog=prog, description=description, allow_abbrev=False)
        self._said: set[str] = set()
        for name in (None, "store"):
            self.register("action", name, _Once)

    def hear(self, action: argparse.Action) -> None:
        """Refuse a flag that was said before: of two values one would be dropped without a word."""
        if action.dest in self._said:
            how = ", with commas between the values" if ",…" in str(action.metavar) else ""
            message = f"said more than once; say it once{how}"
            raise argparse.ArgumentError(action, message)
        self._said.add(action.dest)

    def parse_args(self, args: Sequence[str] | None = None, namespace: None = None) -> argparse.Namespace:  # type: ignore[override]  # we pass no namespace
        """Parse everything or refuse the first argument that has no meaning; ``said`` is what was said, as it was spelt."""
        self._said.clear()
        options, extra = self.parse_known_args(args, namespace)
        if extra:
            near = get_close_matches(extra[0].partition("=")[0], self._option_string_actions, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            self.error(f"unknown argument {extra[0]!r}.{hint}")
        options.said = dict(self._spelt(options))
        return options

    def _spelt(self, options: argparse.Namespace) -> Iterator[tuple[str, str]]:
        """Yield the name and the spelling of everything that is not as it would be without a word."""
        for action in self._actions:
            value = getattr(options, action.dest, action.default)
            if value in (action.default, []):  # What stands for no argument at all, where many may stand.
                continue
            first = value[0] if isinstance(value, list) else value
            yield action.dest, action.option_strings[-1 if value is False else 0] if action.option_strings else repr(first)

    def print_help(self, file: object = None) -> None:
        """Print the help; argparse itself would not notice that nobody reads it."""
        assert file is None  # noqa: S101 - argparse names none
        sys.stdout.write(self.format_help())
        sys.stdout.flush()

    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line and where to look."""
        self.exit(ERROR, f"{self.prog}: {message}\nTry `{self.prog} --help`.\n")


class _Once(argparse._StoreAction):  # noqa: SLF001 - what argparse stores with, and names nowhere else
    """Keep the value of a flag that may be said once; a flag for several says so with ``append``."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,  # noqa: ANN401 - whatever the argument's reader makes
        option_string: str | None = None,
    ) -> None:
        """Keep it."""
        _hear(parser, self)
        super().__call__(parser, namespace, values, option_string)


class Switch(argparse.BooleanOptionalAction):
    """``--word`` and ``--no-word``: one of them, once."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,  # noqa: ANN401 - a switch has none
        option_string: str | None = None,
    ) -> None:
        """Keep which of both was said."""
        _hear(parser, self)
        super().__call__(parser, namespace, values, option_string)


def _hear(parser: argparse.ArgumentParser, action: argparse.Action) -> None:
    assert isinstance(parser, Parser)  # noqa: S101 - who registers these
    parser.hear(action)


def one_of(words: Sequence[str]) -> Callable[[str], str]:
    """Return a reader that takes one of these words; argparse's own choices would not say which was meant."""

    def read(text: str) -> str:
        if text in words:
            return text
        near = get_close_matches(text, words, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        message = f"unknown value {text!r}.{hint} Known: {', '.join(words)}."
        raise argparse.ArgumentTypeError(message)

    return read


def shown(words: Sequence[str]) -> str:
    """Return words as the help has them: ``{train,serve}``."""
    return f"{{{','.join(words)}}}"


def whole_number(text: str) -> int:
    """Read a count, 0 or more."""
    if not (text.isascii() and text.isdigit()):
        message = f"{text!r} is not a whole number"
        raise argparse.ArgumentTypeError(message)
    return int(text)


def at_least_one(text: str) -> int:
    """Read a count of what cannot be none."""
    number = whole_number(text)
    if not number:
        message = f"{text!r} is none; say 1 or more"
        raise argparse.ArgumentTypeError(message)
    return number
