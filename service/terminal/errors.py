"""Failures of a command.

One line on stderr, a code that no answer has, and silence when nobody reads the output any more.
"""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from service.base.errors import ServiceError
from service.base.server_versions import explain_last_version
from service.estimator.values.errors import EstimatorError
from service.terminal.controls import spell_controls

_SERVER_PACKAGES = frozenset(
    {
        *("alembic", "jinja2", "limits", "litestar", "prometheus_client", "psycopg", "redis"),
        *("rq", "sqlalchemy", "structlog", "uvicorn"),
    }
)
"""What comes with the extra ``server`` alone."""
PIPE_CLOSED = 141
"""What a shell reports for a program that ended by SIGPIPE: 128 + 13."""


def report_error(error: Exception) -> None:
    """Print an error in one line on stderr.

    The traceback only where debugging is on.
    """
    # Nobody may be left to read that either.
    with suppress(OSError):
        if not isinstance(error, ServiceError | EstimatorError) and is_debugging(os.environ):
            sys.excepthook(type(error), error, error.__traceback__)
        sys.stderr.write(f"headroom: {spell_controls(describe_error(error))}\n")


def describe_error(error: Exception) -> str:
    """Return an error in words.

    Its own, the system's, or for an unexpected one its kind and where to learn more.
    """
    match error:
        case ServiceError():
            return error.detail
        case EstimatorError():
            return error.message
        case ModuleNotFoundError(name=str(name)) if name.partition(".")[0] in _SERVER_PACKAGES:
            return (
                f"{name} is not installed: pip install 'gpu-headroom[server]' for a server and its "
                "workers, 'gpu-headroom[embedded]' for `headroom up`"
            )
        case OSError(strerror=str(reason)):
            return f"{reason}: {error.filename}" if error.filename is not None else reason
        case _:
            text = " ".join(str(error).split())
            versions = explain_last_version()
            return (
                f"an error that nobody expected, {type(error).__name__}: {text} (HEADROOM_DEBUG=1 "
                f"shows where){f'; {versions}' if versions else ''}"
            )


def is_debugging(environ: Mapping[str, str]) -> bool:
    """Return whether the environment asks for tracebacks."""
    return (
        environ.get("HEADROOM_DEBUG") in {"1", "true"}
        or environ.get("HEADROOM_LOG_LEVEL", "").lower() == "debug"
    )


def reopen_closed_streams() -> None:
    """Redirect outputs that the caller closed to /dev/null.

    Then only the exit code is wanted.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open for as long as we run


def detach_broken_streams() -> None:
    """Redirect broken outputs to /dev/null.

    So that Python's last flush does not fail and change the exit code.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, stream.fileno())
            os.close(devnull)
