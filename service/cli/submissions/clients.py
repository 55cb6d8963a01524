"""Clients of schedulers: programs on the PATH."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from service.base.errors import InvalidRequestError
from service.cli.submissions.errors import SchedulerError

_PATIENCE_S = 120.0
_MAX_TEXT = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Result of a program."""

    code: int
    out: str
    err: str


def run_client(command: Sequence[str], text: str = "") -> Output:
    """Run a client to its end.

    Raises SchedulerError where it does not end in time.
    """
    try:
        done = subprocess.run(  # noqa: S603 - no shell, and the first word is ours
            command, input=text, capture_output=True, text=True, check=False, timeout=_PATIENCE_S
        )
    except FileNotFoundError:
        message = f"there is no {command[0]} on the PATH; run this where it is"
        raise InvalidRequestError(message) from None
    except subprocess.TimeoutExpired:
        message = f"{command[0]} did not end within {_PATIENCE_S:.0f} s"
        raise SchedulerError(message) from None
    return Output(code=done.returncode, out=done.stdout, err=done.stderr)


def require_success(command: Sequence[str], output: Output) -> str:
    """Return what a client printed; raises SchedulerError where it failed."""
    if output.code != 0:
        text = (output.err.strip() or output.out.strip() or "without a word")[:_MAX_TEXT]
        message = f"{command[0]} failed with {output.code}: {text}"
        raise SchedulerError(message)
    return output.out
