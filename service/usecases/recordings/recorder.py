"""The recorder as a process of its own: request and answers.

It writes JSON lines: what is counted of the model, how far it is, and a document or why not.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from service.runtime.deadline import Allowance, DeadlineExceeded
from service.runtime.line_process import (
    Ended,
    Process,
    Stopped,
    follow_process,
    start_process,
)
from service.runtime.process_user import ProcessUser
from service.usecases.recordings.configs import Config, check_recordable

RECORDER = (sys.executable, "-m", "worker.probes.architecture")
PACKAGES = ("torch", "transformers")
DEADLINE_S = 1800.0
"""Time by the clock, on a machine that does other things too; the recorder itself bounds what it
takes of the processor.
"""
_MAX_LINE_BYTES = 64 * 2**20
_EXCERPT_CHARS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticPart:
    """Parameters of a model as transformers builds it, by kind of module.

    ``document`` is a recording of its weights alone.
    """

    total: int
    by_kind: Mapping[str, int]
    transformers: str
    torch: str
    document: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Share of a recording that is done, and what is done now."""

    fraction: float
    phase: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The document of a recording that is complete."""

    document: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Why a model cannot be recorded, now or at another attempt."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Died:
    """The recorder ended without an answer; another attempt may do better."""

    reason: str


Update = StaticPart | Progress
Outcome = Recorded | Refused | Died | DeadlineExceeded | Stopped


_Message = StaticPart | Progress | Recorded | Refused
Answer = TypeVar("Answer")


def record_config(  # noqa: PLR0913 - what to record, by which program, and as whom
    config: Config,
    *,
    on_update: Callable[[Update], None],
    should_stop: Callable[[], bool] = lambda: False,
    command: Sequence[str] = RECORDER,
    deadline_s: float = DEADLINE_S,
    environ: Mapping[str, str] | None = None,
    user: ProcessUser | None = None,
) -> Outcome:
    """Record a config in a process with bounds of memory and time.

    Raises InvalidConfigError for what no process is started for.
    """
    check_recordable(config)
    request = _encode(config, weights_only=False)
    with start_process(command, request, environ=environ, user=user) as process:
        return _follow(process, partial(_take_update, on_update=on_update), should_stop, deadline_s)


def count_weights(
    config: Config, *, deadline_s: float, command: Sequence[str] = RECORDER
) -> StaticPart | Refused | Died | DeadlineExceeded | Stopped:
    """Count a config's weights in a process with bounds.

    Raises InvalidConfigError for what no process is started for.
    """
    check_recordable(config)
    with start_process(command, _encode(config, weights_only=True)) as process:
        return _follow(process, _take_weights, lambda: False, deadline_s)


def _encode(config: Config, *, weights_only: bool) -> bytes:
    request = {"config": dict(config), "parent": os.getpid(), "weights_only": weights_only}
    return json.dumps(request).encode()


def _follow(
    process: Process,
    take: Callable[[_Message], Answer | None],
    should_stop: Callable[[], bool],
    deadline_s: float,
) -> Answer | Refused | Died | DeadlineExceeded | Stopped:
    def take_line(line: bytes) -> Answer | Died | None:
        try:
            message = _parse(line)
        except (ValueError, TypeError, KeyError, AttributeError):
            return Died(reason=f"the recorder wrote {line[:80]!r}")
        return take(message)

    outcome: Answer | Died | DeadlineExceeded | Stopped | Ended = follow_process(
        process,
        take_line,
        allowance=Allowance(deadline_s=deadline_s),
        max_line_bytes=_MAX_LINE_BYTES,
        should_stop=should_stop,
    )
    return _explain(outcome) if isinstance(outcome, Ended) else outcome


def _take_update(
    message: _Message, on_update: Callable[[Update], None]
) -> Recorded | Refused | None:
    if isinstance(message, Recorded | Refused):
        return message
    on_update(message)
    return None


def _take_weights(message: _Message) -> StaticPart | Refused | None:
    return message if isinstance(message, StaticPart | Refused) else None


def _parse(line: bytes) -> _Message:
    message: dict[str, Any] = json.loads(line)
    match message.pop("kind"):
        case "static":
            return StaticPart(**message)
        case "progress":
            return Progress(**message)
        case "recorded":
            return Recorded(**message)
        case _:
            return Refused(**message)


def _explain(ended: Ended) -> Refused | Died:
    if ended.signal is signal.SIGXCPU:
        return Refused(message="it takes more time of a processor to record than is allowed")
    lines = ended.stderr.strip().splitlines()
    excerpt = f"; its last words: {lines[-1][-_EXCERPT_CHARS:]}" if lines else ""
    return Died(reason=f"the recorder {ended.describe()}{excerpt}")
