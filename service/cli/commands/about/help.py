"""Show what a command takes, or all commands."""

import argparse
import sys

from service.cli.command_table import COMMANDS, build_parser, render_overview
from service.terminal.arguments import make_choice_reader


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command that is shown."""
    parser.add_argument(
        "command",
        nargs="?",
        type=make_choice_reader(tuple(COMMANDS)),
        metavar="COMMAND",
        help="the command; without one all are listed",
    )


def run(options: argparse.Namespace) -> int:
    """Print the help."""
    if options.command is None:
        sys.stdout.write(render_overview())
    else:
        build_parser(options.command).print_help()
    return 0
