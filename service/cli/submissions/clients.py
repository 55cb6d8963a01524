"""Clients of schedulers: programs on the PATH."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from service.base.errors import InvalidRequestError
from service.cli.submissions.errors import SchedulerError
from service.formats.submissions.submission import DIGEST

PATIENCE_S = 120.0
"""How long a client may take until it is ended."""
_MAX_TEXT = 500
_NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
_TRACEBACK = "Traceback (most recent call last)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Result of a program."""

    code: int
    out: str
    err: str


def run_client(
    command: Sequence[str], text: str = "", variables: Mapping[str, str] = _NO_VARIABLES
) -> Output:
    """Run a client to its end, in this environment and these variables.

    Raises SchedulerError where it does not end in time.
    """
    try:
        done = subprocess.run(  # noqa: S603 - no shell, and the first word is ours
            command,
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
            env={**os.environ, **variables},
            # A client that outlives this process keeps the lock of its submission.
            close_fds=False,
        )
    except FileNotFoundError:
        message = f"there is no {command[0]} on the PATH; run this where it is"
        raise InvalidRequestError(message) from None
    except subprocess.TimeoutExpired:
        message = f"{command[0]} did not end within {PATIENCE_S:.0f} s"
        raise SchedulerError(message) from None
    return Output(code=done.returncode, out=done.stdout, err=done.stderr)


def require_success(command: Sequence[str], output: Output) -> str:
    """Return what a client printed; raises SchedulerError where it failed."""
    if output.code != 0:
        raise SchedulerError(describe_failure(command, output))
    return output.out


def describe_failure(command: Sequence[str], output: Output) -> str:
    """Return the words of a client that failed."""
    text = _shorten(output.err) or _shorten(output.out) or "without a word"
    return f"{command[0]} failed with {output.code}: {text}"


def read_json(command: str, printed: str) -> Any:  # noqa: ANN401 - JSON
    """Return what a client printed; raises SchedulerError where it is no JSON."""
    try:
        return json.loads(printed)
    except ValueError:
        message = f"{command} printed no JSON, but {printed[:80]!r}"
        raise SchedulerError(message) from None


def fill_variables(variables: Mapping[str, str | None], digest: str = "") -> dict[str, str]:
    """Return variables of a job, the null ones from this environment.

    ``digest`` names the question that was answered for the job, if any. Raises
    InvalidRequestError where a variable is not set.
    """
    missing = [
        name for name, value in variables.items() if value is None and name not in os.environ
    ]
    if missing:
        message = f"the job reads {', '.join(missing)}: set {'them' if missing[1:] else 'it'} here"
        raise InvalidRequestError(message)
    filled = {
        name: os.environ[name] if value is None else value for name, value in variables.items()
    }
    return {**filled, **({DIGEST: digest} if digest else {})}


def _shorten(text: str) -> str:
    """Return a client's complaint on one line.

    Of a traceback of Python that is the error.
    """
    lines = text.split("\n") if _TRACEBACK not in text else text.strip().split("\n")[-1:]
    return " ".join(" ".join(lines).split())[:_MAX_TEXT]
