"""Argument parser of the command line.

Arguments are refused with the nearest known name, never abbreviated, never guessed, never given
twice.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, NoReturn

FITS = 0
DOES_NOT_FIT = 1
ERROR = 2
TIGHT = 3
"""It fits at the point and not at the upper end, told apart where that was asked for."""
_SLIP = 0.85
"""Likeness (difflib) above which two flags differ by a letter or two."""


class UsageError(SystemExit):
    """Wrong arguments, told on stderr by who raises this."""

    def __init__(self, message: str) -> None:
        """Leave with the code of an error."""
        super().__init__(ERROR)
        self.message = message


class Parser(argparse.ArgumentParser):
    """Strict ArgumentParser that exits with code 2.

    It names the nearest flag, takes each once, and ends in one line.
    """

    def __init__(self, *, prog: str, description: str | None = None) -> None:
        """Configure argparse without abbreviations.

        A flag that is added later would change what they mean.
        """
        super().__init__(prog=prog, description=description, allow_abbrev=False)
        self._seen_flags: set[str] = set()
        self._command_dest: str | None = None
        self._absent_flags: dict[str, str] = {}
        for name in (None, "store"):
            self.register("action", name, _StoreOnce)

    def accept_command(self, dest: str) -> None:
        """Keep what stands after ``--`` as ``dest``: the words of another command."""
        self._command_dest = dest
        self.set_defaults(**{dest: []})

    def explain_absent(self, flag: str, message: str) -> None:
        """Say what stands in place of a flag that is absent."""
        self._absent_flags[flag] = message

    def record_flag(self, action: argparse.Action) -> None:
        """Refuse a flag that was given before.

        Of two values one would be dropped without a word.
        """
        if action.dest in self._seen_flags:
            hint = ", with commas between the values" if ",…" in str(action.metavar) else ""
            message = f"said more than once; say it once{hint}"
            raise argparse.ArgumentError(action, message)
        self._seen_flags.add(action.dest)

    def list_actions(self) -> list[argparse.Action]:
        """Return every argument, in the order of the help."""
        return self._actions

    def parse_args(  # type: ignore[override]  # we pass no namespace
        self, args: Sequence[str] | None = None, namespace: None = None
    ) -> argparse.Namespace:
        """Parse all arguments, or refuse the first that is unknown.

        ``provided`` of the result maps what was given to its spelling.
        """
        self._seen_flags.clear()
        own, command = self._split_command(args)
        options, extra = self.parse_known_args(own, namespace)
        if command is not None and self._command_dest is not None:
            setattr(options, self._command_dest, command)
        if extra:
            flag = extra[0].partition("=")[0]
            near = " or ".join(self._find_nearest(flag))
            hint = f" Did you mean {near}?" if near else self._point_to_commands()
            self.error(f"unknown argument {extra[0]!r}.{self._absent_flags.get(flag, hint)}")
        options.provided = dict(self._iter_provided(options))
        return options

    def _find_nearest(self, flag: str) -> Sequence[str]:
        """Return the known flags that an unknown one may mean.

        These are the one it spells with a slip and the shortest that have all its words, three in
        all, or else the one most like it.
        """
        flags = self._option_string_actions
        parts = frozenset(flag.strip("-").split("-"))
        longer = (name for name in flags if parts <= frozenset(name.strip("-").split("-")))
        slips = get_close_matches(flag, flags, n=1, cutoff=_SLIP)
        near = dict.fromkeys((*slips, *sorted(longer, key=len)))
        return list(near)[:3] or get_close_matches(flag, flags, n=1)

    def _point_to_commands(self) -> str:
        """Return where the words of a launcher go, which its command has."""
        if "--launcher" not in self._option_string_actions:
            return ""
        return " Words of a launcher go behind --, in its own command: -- vllm serve MODEL …"

    def _split_command(
        self, args: Sequence[str] | None
    ) -> tuple[Sequence[str] | None, list[str] | None]:
        """Return the arguments before ``--``, and the other command behind it."""
        if self._command_dest is None or args is None or "--" not in args:
            return args, None
        place = list(args).index("--")
        return args[:place], list(args[place + 1 :])

    def _iter_provided(self, options: argparse.Namespace) -> Iterator[tuple[str, str]]:
        """Yield name and spelling of every argument given.

        That is everything that differs from its default.
        """
        for action in self._actions:
            value = getattr(options, action.dest, action.default)
            if value in (
                action.default,
                [],
            ):  # What stands for no argument at all, where many may stand.
                continue
            first = value[0] if isinstance(value, list) else value
            yield (
                action.dest,
                action.option_strings[-1 if value is False else 0]
                if action.option_strings
                else repr(first),
            )

    def print_help(self, file: object = None) -> None:
        """Print the help and flush it.

        argparse itself would not notice that nobody reads it.
        """
        assert file is None  # noqa: S101 - argparse names none
        sys.stdout.write(self.format_help())
        sys.stdout.flush()

    def error(self, message: str) -> NoReturn:
        """Raise UsageError, with one line on stderr and a hint at ``--help``."""
        self._print_message(f"{self.prog}: {message}\nTry `{self.prog} --help`.\n", sys.stderr)
        raise UsageError(message)


class _StoreOnce(argparse._StoreAction):  # noqa: SLF001 - what argparse stores with, and names nowhere else
    """Store action of a flag that may be given once.

    A flag for several values says so with ``append``.
    """

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,  # noqa: ANN401 - whatever the argument's reader makes
        option_string: str | None = None,
    ) -> None:
        """Store the value."""
        _record_flag(parser, self)
        super().__call__(parser, namespace, values, option_string)


class Switch(argparse.BooleanOptionalAction):
    """Boolean flag ``--word`` and ``--no-word``, given once."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,  # noqa: ANN401 - a switch has none
        option_string: str | None = None,
    ) -> None:
        """Store which of both was given."""
        _record_flag(parser, self)
        super().__call__(parser, namespace, values, option_string)


def _record_flag(parser: argparse.ArgumentParser, action: argparse.Action) -> None:
    assert isinstance(parser, Parser)  # noqa: S101 - who registers these
    parser.record_flag(action)


NO_SYNONYMS: Mapping[str, str] = MappingProxyType({})


class ChoiceReader:
    """Reader that takes one of some choices.

    argparse's own choices would not say which was meant.
    """

    def __init__(self, choices: Sequence[str], synonyms: Mapping[str, str] = NO_SYNONYMS) -> None:
        """Keep the choices, which a shell's completion offers as well.

        ``synonyms`` are words that people say for some of them.
        """
        self.choices, self._synonyms = tuple(choices), synonyms

    def __call__(self, text: str) -> str:
        """Return the text, or refuse it with the nearest choice."""
        if text in self.choices:
            return text
        meant = self._synonyms.get(text.casefold())
        near = get_close_matches(text, self.choices, n=1) if meant is None else [meant]
        hint = f" Did you mean {near[0]!r}?" if near else ""
        message = f"unknown value {text!r}.{hint} Known: {', '.join(self.choices)}."
        raise argparse.ArgumentTypeError(message)


def make_choice_reader(
    choices: Sequence[str], synonyms: Mapping[str, str] = NO_SYNONYMS
) -> ChoiceReader:
    """Return a reader that takes one of these choices."""
    return ChoiceReader(choices, synonyms)


def format_choices(choices: Sequence[str]) -> str:
    """Return choices as the help has them: ``{train,serve}``."""
    return f"{{{','.join(choices)}}}"


def parse_count(text: str) -> int:
    """Parse a count, 0 or more."""
    if not (text.isascii() and text.isdigit()):
        message = f"{text!r} is not a whole number"
        raise argparse.ArgumentTypeError(message)
    return int(text)


def parse_positive(text: str) -> int:
    """Parse a count, 1 or more."""
    number = parse_count(text)
    if not number:
        message = f"{text!r} is none; say 1 or more"
        raise argparse.ArgumentTypeError(message)
    return number
