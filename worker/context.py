"""Settings and environment that all attempts of one worker share."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from service.jobs.contract import ProbeDevice
from service.runtime.child_environ import select_environ
from service.runtime.logs import get_logger
from service.runtime.process_user import ProcessUser
from service.runtime.settings import Settings
from service.telemetry.origin import to_environ
from service.telemetry.spans import get_traceparent
from service.usecases.jobs import attempts
from service.usecases.jobs.attempts import Attempt
from service.usecases.recordings.recorder import RECORDER
from service.usecases.stored import Sessions

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerContext:
    """Settings and identity that all attempts of one worker share."""

    settings: Settings
    name: str
    device: ProbeDevice
    probe_command: Sequence[str]
    recorder_command: Sequence[str] = RECORDER
    user: ProcessUser | None = None
    """User of its own probes and recorders, None for the worker's."""
    gpu: str | None = None
    """The catalogue's name of the GPU, None without one or for one that it does not know."""


def build_environ(attempt: Attempt) -> dict[str, str]:
    """Return the environment of an attempt's process, without the worker's secrets."""
    origin = replace(attempt.origin, traceparent=get_traceparent() or attempt.origin.traceparent)
    return select_environ(os.environ) | to_environ(
        origin, job_id=str(attempt.job_id), attempt=attempt.number
    )


def give_up(sessions: Sessions, attempt: Attempt, reason: str) -> bool:
    """Release a job whose process died, for another attempt at once."""
    _log.warning("probe.died", job_id=str(attempt.job_id), attempt=attempt.number, reason=reason)
    return (
        attempts.release(sessions, attempt.job_id, attempt=attempt.number, reason=reason)
        is not None
    )
