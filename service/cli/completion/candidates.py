"""Candidates of a shell's completion, from the parsers of the commands themselves."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path

from service.base.errors import ServiceError
from service.cli.command_table import COMMANDS, build_parser
from service.terminal.arguments import ChoiceReader, Parser

FILES = ":files"
"""What stands for the shell's own completion of files."""
Candidate = tuple[str, str]
"""A word and what it means."""


def list_candidates(words: Sequence[str], last: str) -> list[Candidate]:
    """Return what may stand in place of ``last`` after ``words``.

    ``words`` are those after ``headroom``; a ``=`` by itself, as bash cuts words, is left out.
    """
    before = [word for word in words if word != "="]
    if last == "=":
        last = ""
    if not before:
        return _keep(((name, text) for name, text in COMMANDS.items()), last)
    try:
        parser = build_parser(before[0])
    except ServiceError:
        return []
    return _complete_argument(before[0], parser, before[1:], last)


def _complete_argument(
    command: str, parser: Parser, before: Sequence[str], last: str
) -> list[Candidate]:
    flags = {name: action for action in parser.list_actions() for name in action.option_strings}
    name, equals, value = last.partition("=")
    if equals and name in flags:
        return [
            (f"{name}={word}", text) for word, text in _complete_value(command, flags[name], value)
        ]
    flag = flags.get(before[-1]) if before else None
    if flag is not None and flag.nargs != 0:
        return _complete_value(command, flag, last)
    if last.startswith("-"):
        return _keep(_iter_flags(parser, before), last)
    position = _find_positional(parser, flags, before)
    values = [] if position is None else _complete_value(command, position, last)
    return values or _keep(_iter_flags(parser, before), last)


def _iter_flags(parser: Parser, before: Sequence[str]) -> Iterator[Candidate]:
    """Yield the flags that were not given yet."""
    for action in parser.list_actions():
        if action.help == argparse.SUPPRESS or not set(action.option_strings).isdisjoint(before):
            continue
        for name in action.option_strings:
            if name.startswith("--"):
                yield name, _describe(action)


def _find_positional(
    parser: Parser, flags: Mapping[str, argparse.Action], before: Sequence[str]
) -> argparse.Action | None:
    """Return the argument without a flag that comes next."""
    places = [
        action
        for action in parser.list_actions()
        if not action.option_strings and action.help != argparse.SUPPRESS
    ]
    count, takes_value = 0, False
    for word in before:
        if takes_value:
            takes_value = False
        elif word.startswith("-"):
            action = flags.get(word)
            takes_value = action is not None and action.nargs != 0
        else:
            count += 1
    return places[count] if count < len(places) else None


def _complete_value(command: str, action: argparse.Action, last: str) -> list[Candidate]:
    """Return values of an argument.

    Of a list with commas they are those after the last comma.
    """
    if action.type is Path:
        return [(FILES, "")]
    words = _list_values(command, action)
    if not str(action.metavar or "").endswith(",…"):
        return _keep(((word, "") for word in words), last)
    first, comma, prefix = last.rpartition(",")
    chosen = set(first.split(","))
    offered = ((word, "") for word in words if word not in chosen)
    return [(f"{first}{comma}{word}", text) for word, text in _keep(offered, prefix)]


def _list_values(command: str, action: argparse.Action) -> Sequence[str]:
    if isinstance(action.type, ChoiceReader):
        return action.type.choices
    # Commands and flags are completed without the catalogue.
    names = import_module("service.cli.completion.names")
    values: Sequence[str] = names.list_values(command, action.dest)
    return values


def _describe(action: argparse.Action) -> str:
    """Return the first clause of an argument's help, without argparse's own marks."""
    text = " ".join(str(action.help or "").split()).replace("%%", "%")
    return text.partition(": ")[0]


def _keep(candidates: Iterator[Candidate], last: str) -> list[Candidate]:
    folded = last.casefold()
    return [candidate for candidate in candidates if candidate[0].casefold().startswith(folded)]
