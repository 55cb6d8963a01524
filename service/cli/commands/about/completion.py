"""Print the completion of a shell, or install it for this user."""

import argparse
import os
import sys
from pathlib import Path

from service.base.errors import InvalidRequestError
from service.cli.completion.candidates import list_candidates
from service.cli.completion.scripts import SHELLS
from service.terminal.arguments import format_choices, make_choice_reader

CANDIDATES = "candidates"
"""What the scripts ask: words that may stand in place of the last one."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the shell."""
    parser.add_argument(
        "shell",
        nargs="?",
        type=make_choice_reader((*SHELLS, CANDIDATES)),
        metavar=format_choices(tuple(SHELLS)),
        help="the shell (default the one that SHELL names)",
    )
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument(
        "--install", action="store_true", help="write it to where the shell looks for it"
    )


def run(options: argparse.Namespace) -> int:
    """Print the script, install it, or answer it."""
    if options.shell == CANDIDATES:
        *words, last = options.words or [""]
        lines = [f"{word}\t{text}" if text else word for word, text in list_candidates(words, last)]
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        return 0
    name = options.shell or Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        message = f"which shell? headroom completion {'|'.join(SHELLS)}"
        raise InvalidRequestError(message)
    if options.install:
        _install(name)
    else:
        sys.stdout.write(SHELLS[name].script)
    return 0


def _install(name: str) -> None:
    shell = SHELLS[name]
    file = shell.locate(os.environ)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(shell.script, encoding="utf-8")
    hint = shell.hint.format(file=file, folder=file.parent)
    sys.stdout.write(f"installed as {file}; {hint}\n")
