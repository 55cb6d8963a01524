"""Entry point of the ``headroom`` command.

It finds the one module that a command needs and loads nothing else. Each command is a module with
``add_arguments(parser)`` and ``run(options) -> exit code``; it is imported when it is asked for, so
that a cold ``headroom fit`` loads no web framework and no database driver.
"""

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from service.cli.command_table import REFUSALS, build_parser, load_command, render_overview
from service.terminal.arguments import ERROR, UsageError
from service.terminal.errors import (
    PIPE_CLOSED,
    detach_broken_streams,
    reopen_closed_streams,
    report_error,
)

INTERRUPTED = 130
"""What a shell reports for a program that ended by SIGINT: 128 + 2."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0 fits or done, 1 does not fit and nothing else, 2 an error told on stderr, 3 a tight fit where
    that is told apart. With ``--json`` a refusal is a problem document on stdout as well.
    """
    reopen_closed_streams()
    argv = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _dispatch(argv)
        # At exit, a reader that has left would be a warning of Python's and a code of its own.
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        code = PIPE_CLOSED
    except Exception as error:  # noqa: BLE001 - Python would leave with 1, which means "does not fit"
        report_error(error)
        _print_problem(error, argv)
        code = ERROR
    except UsageError as error:
        _print_problem(error, argv)
        raise
    detach_broken_streams()
    return code


def _dispatch(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0] in {"-h", "--help"}:
        sys.stdout.write(render_overview())
        return 0 if arguments else ERROR
    name = "version" if arguments[0] == "--version" else arguments[0]
    module = load_command(name)
    parser = build_parser(name)
    own, launched = _split_at_launch(parser, arguments[1:])
    options = parser.parse_args(own)
    if launched:
        options.launch_command = launched
    code: int = module.run(options)
    return code


def _split_at_launch(
    parser: ArgumentParser, arguments: Sequence[str]
) -> tuple[Sequence[str], tuple[str, ...]]:
    """Return a command's own arguments, and the launch that stands after ``--``."""
    if parser.get_default("launch_command") is None or "--" not in arguments:
        return arguments, ()
    place = arguments.index("--")
    return arguments[:place], tuple(arguments[place + 1 :])


def _print_problem(error: BaseException, argv: Sequence[str]) -> None:
    """Print a refusal as programs and shells read it."""
    with suppress(OSError):
        if argv[0] in REFUSALS:
            sys.stdout.write(f"{REFUSALS[argv[0]]}\n")
        if "--json" not in argv:
            return
        import_module("service.cli.refusals").print_problem(error, argv[0])


if __name__ == "__main__":
    sys.exit(main())
