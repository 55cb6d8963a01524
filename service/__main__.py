"""Entry point of the ``headroom`` command.

It finds the one module that a command needs and loads nothing else. Each command is a module with
``add_arguments(parser)`` and ``run(options) -> exit code``; it is imported when it is asked for, so
that a cold ``headroom fit`` loads no web framework and no database driver.
"""

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module

from service.base.errors import InvalidRequestError
from service.terminal.arguments import ERROR, Parser
from service.terminal.errors import (
    PIPE_CLOSED,
    detach_broken_streams,
    reopen_closed_streams,
    report_error,
)

COMMANDS = {
    "up": "start everything, embedded, in the foreground",
    "serve": "run the HTTP API against DATABASE_URL and REDIS_URL",
    "worker": "run a worker that measures",
    "reconcile": "run the loop that re-rings and re-queues jobs",
    "migrate": "bring the database to this version's schema",
    "prune": "delete old progress, samples, artifacts and changes",
    "fit": "does a workload fit on a GPU? answers offline",
    "how-many": "how many GPUs does it need? answers offline",
    "plan": "which GPUs, how many, in which layout? answers offline",
    "ceilings": (
        "how large may a batch, a sequence, a load, an adapter or a model be? answers offline"
    ),
    "models": "list, show, store and delete models",
    "clusters": "list, show, store and delete clusters",
    "reservations": "list, show, make and release reservations of GPUs",
    "keys": "make, list and revoke keys",
    "measure": "ask for a measurement and watch it",
    "measurements": "list, show, export and import measurements",
    "accuracy": "how far answers were from measurements, before and after calibration",
    "calibrations": "list what was learnt from measurements, measure it again",
    "version": "print the version",
}
"""Command → one line of help; its module is ``service.cli.commands.<name with underscores>``."""
INTERRUPTED = 130
"""What a shell reports for a program that ended by SIGINT: 128 + 2."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0 fits or done, 1 does not fit and nothing else, 2 an error told on stderr.
    """
    reopen_closed_streams()
    try:
        code = _dispatch(list(sys.argv[1:] if arguments is None else arguments))
        # At exit, a reader that has left would be a warning of Python's and a code of its own.
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        code = PIPE_CLOSED
    except Exception as error:  # noqa: BLE001 - Python would leave with 1, which means "does not fit"
        report_error(error)
        code = ERROR
    detach_broken_streams()
    return code


def _dispatch(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0] in {"-h", "--help"}:
        sys.stdout.write(_render_overview())
        return 0 if arguments else ERROR
    name = "version" if arguments[0] == "--version" else arguments[0]
    if name not in COMMANDS:
        raise InvalidRequestError(_describe_unknown(name))
    module = import_module(f"service.cli.commands.{name.replace('-', '_')}")
    parser = Parser(prog=f"headroom {name}", description=module.__doc__)
    module.add_arguments(parser)
    code: int = module.run(parser.parse_args(arguments[1:]))
    return code


def _render_overview() -> str:
    lines = [f"  {name:<12} {text}" for name, text in COMMANDS.items()]
    return "\n".join(
        [
            "usage: headroom COMMAND …",
            "",
            *lines,
            "",
            "`headroom COMMAND --help` shows what a command takes.",
            "",
        ],
    )


def _describe_unknown(name: str) -> str:
    near = get_close_matches(name, COMMANDS, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"there is no command {name!r}.{hint} Commands: {', '.join(COMMANDS)}."


if __name__ == "__main__":
    sys.exit(main())
