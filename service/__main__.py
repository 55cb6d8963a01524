"""The ``headroom`` command: finds the one module that a command needs and loads nothing else.

Each command is a module with ``add_arguments(parser)`` and ``run(options) -> exit code``; it is imported when it is asked for,
so that a cold ``headroom fit`` loads no web framework and no database driver.
"""

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module

from service.cli.parser import ERROR, Parser
from service.errors import ServiceError
from service.estimator.errors import EstimatorError

COMMANDS = {
    "up": "start everything, embedded, in the foreground",
    "serve": "run the HTTP API against DATABASE_URL and REDIS_URL",
    "worker": "run a worker that measures",
    "reconcile": "run the loop that re-rings and re-queues jobs",
    "migrate": "bring the database to this version's schema",
    "fit": "does a workload fit on a GPU? answers offline",
    "how-many": "how many GPUs does it need? answers offline",
    "models": "list, show, store and delete models",
    "clusters": "list, show, store and delete clusters",
    "measure": "ask for a measurement and watch it",
    "version": "print the version",
}
"""Command → one line of help; its module is ``service.cli.<name with underscores>``."""
INTERRUPTED = 130
"""What a shell reports for a program that ended by SIGINT: 128 + 2."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 fits or done, 1 does not fit, 2 an error that is told on stderr."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in {"-h", "--help"}:
        sys.stdout.write(_overview())
        return 0 if given else ERROR
    name = "version" if given[0] == "--version" else given[0]
    if name not in COMMANDS:
        return _complain(_unknown(name))
    return _run(name, given[1:])


def _run(name: str, arguments: Sequence[str]) -> int:
    try:
        module = import_module(f"service.cli.{name.replace('-', '_')}")
        parser = Parser(prog=f"headroom {name}", description=module.__doc__)
        module.add_arguments(parser)
        code: int = module.run(parser.parse_args(arguments))
    except ServiceError as error:
        return _complain(error.detail)
    except EstimatorError as error:
        return _complain(error.message)
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _overview() -> str:
    lines = [f"  {name:<10} {text}" for name, text in COMMANDS.items()]
    return "\n".join(["usage: headroom COMMAND …", "", *lines, "", "`headroom COMMAND --help` shows what a command takes.", ""])


def _unknown(name: str) -> str:
    near = get_close_matches(name, COMMANDS, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"there is no command {name!r}.{hint} Commands: {', '.join(COMMANDS)}."


def _complain(message: str) -> int:
    sys.stderr.write(f"headroom: {message}\n")
    return ERROR


if __name__ == "__main__":
    sys.exit(main())
