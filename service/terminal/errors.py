"""How a command fails: one line on stderr, a code that no answer has, and quietly when nobody reads any more."""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from service.base.errors import ServiceError
from service.estimator.values.errors import EstimatorError

PIPE_CLOSED = 141
"""What a shell reports for a program that ended by SIGPIPE: 128 + 13."""


def tell(error: Exception) -> None:
    """Say in one line on stderr what went wrong; where it did, only to who debugs."""
    # Nobody may be left to read that either.
    with suppress(OSError):
        if not isinstance(error, ServiceError | EstimatorError) and is_debugging(os.environ):
            sys.excepthook(type(error), error, error.__traceback__)
        sys.stderr.write(f"headroom: {words_of(error)}\n")


def words_of(error: Exception) -> str:
    """Return an error in words: its own, the system's, or for one that nobody expected its kind and where to learn more."""
    match error:
        case ServiceError():
            return error.detail
        case EstimatorError():
            return error.message
        case OSError(strerror=str(reason)):
            return f"{reason}: {error.filename}" if error.filename is not None else reason
        case _:
            said = " ".join(str(error).split())
            return f"an error that nobody expected, {type(error).__name__}: {said} (HEADROOM_DEBUG=1 shows where)"


def is_debugging(environ: Mapping[str, str]) -> bool:
    """Say whether the environment asks for tracebacks."""
    return environ.get("HEADROOM_DEBUG") in {"1", "true"} or environ.get("HEADROOM_LOG_LEVEL", "").lower() == "debug"


def open_closed() -> None:
    """Give an output that the caller closed a place to go: then the exit code alone was wanted."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open for as long as we run


def let_go() -> None:
    """Point an output that takes no more at nothing, so that Python's last flush does not fail and change the exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, stream.fileno())
            os.close(nothing)
