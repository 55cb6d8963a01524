"""One attempt, in the process that was forked for it: claim, run the probe, write what came of it, once."""

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

from service.db.records.measurements import PackedArtifact
from service.jobs.contract import JobPayload, ProbeDevice, ProbeFailure, ProbeResult, ProtocolError
from service.jobs.states import Lease
from service.runtime.logs import logger
from service.runtime.settings import Settings
from service.telemetry.origin import TRACEPARENT_VARIABLE, begin, to_environ
from service.telemetry.spans import Kind, span, traced, traceparent
from service.usecases.jobs import attempts, outcomes
from service.usecases.jobs.attempts import NOTHING_UNWRITTEN, Attempt, Unwritten
from service.usecases.stored import Sessions
from worker.artifact_files import Files, open_files
from worker.lease import keep_lease
from worker.probe_log import Relay
from worker.process import DeadlineExceeded, Died, Outcome, Stopped, follow, kill_group, start_probe
from worker.reporter import Reporter
from worker.retry import insist

_log = logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """What every attempt of one worker has in common."""

    settings: Settings
    name: str
    device: ProbeDevice
    probe_command: Sequence[str]
    gpu: str | None = None
    """The catalogue's name of the GPU, None without one or for one that it does not know."""


def answer(workplace: Workplace, sessions: Sessions, payload: JobPayload) -> None:
    """Make the attempt that a ring asks for, unless it is stale."""
    with traced("headroom-worker", at_end=True):
        _answer(workplace, sessions, payload)


def _answer(workplace: Workplace, sessions: Sessions, payload: JobPayload) -> None:
    settings = workplace.settings
    began_ns = time.time_ns()
    attempt = attempts.claim(
        sessions, payload, worker=workplace.name, lease_s=settings.lease_s, deadline_s=settings.job_deadline_s
    )
    if attempt is None:
        _log.info("attempt.stale", job_id=str(payload.job_id), attempt=payload.attempt)
        return
    ids: dict[str, str | int] = {"job_id": str(attempt.job_id), "attempt": attempt.number}
    parent = attempt.origin.traceparent
    with span("measurement.attempt", kind=Kind.CONSUMER, parent=parent, began_ns=began_ns, worker=workplace.name, **ids):
        begin(replace(attempt.origin, traceparent=traceparent() or parent), **ids)
        with span("measurement.claim", began_ns=began_ns):
            # What it was of is known only now that it is over.
            _log.info("attempt.began")
        run(workplace, sessions, attempt)
        _log.info("attempt.ended")


def run(workplace: Workplace, sessions: Sessions, attempt: Attempt) -> None:
    """Run the probe of a claimed attempt under its lease, and write what came of it."""
    settings = workplace.settings
    deadline_s = settings.probe_deadline_s
    reporter = Reporter(partial(attempts.report, sessions, attempt))
    beat = partial(attempts.heartbeat, sessions, attempt, lease_s=settings.lease_s)
    look = partial(attempts.look, sessions, attempt)
    relay = Relay()
    with open_files(attempt.request.artifacts) as files, ExitStack() as probing:
        request = attempt.request.probe_request(deadline_s=deadline_s, files=files.descriptors)
        probing.enter_context(span("probe", kind=Kind.CLIENT, device=request.device.value))
        # The probe first: it must be started by a process of one thread.
        with (
            start_probe(workplace.probe_command, request, _environ_for(attempt)) as process,
            keep_lease(beat, look=look, interval_s=settings.heartbeat_s) as watch,
        ):

            def should_stop() -> bool:
                reporter.flush_if_due()
                return not watch.is_held

            outcome = follow(
                process, deadline_s=deadline_s, on_line=reporter.take, should_stop=should_stop, on_stderr=relay.take
            )
            kill_group(process)
            relay.end()
            probing.close()
            reporter.flush()
            if isinstance(outcome, Stopped) and watch.lease is Lease.LOST:
                _log.warning("attempt.lost", job_id=str(attempt.job_id), attempt=attempt.number)
            else:
                end = End(outcome=outcome, unwritten=reporter.unwritten)
                conclude(sessions, attempt, end.with_files(files), retry_s=settings.finish_retry_s)


def _environ_for(attempt: Attempt) -> dict[str, str]:
    origin = replace(attempt.origin, traceparent=traceparent() or attempt.origin.traceparent)
    ours = {name: value for name, value in os.environ.items() if name != TRACEPARENT_VARIABLE}
    return ours | to_environ(origin, job_id=str(attempt.job_id), attempt=attempt.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How an attempt ended, and what is to be stored with it."""

    outcome: Outcome
    unwritten: Unwritten = NOTHING_UNWRITTEN
    artifacts: tuple[PackedArtifact, ...] = ()

    def with_files(self, files: Files) -> "End":
        """Return it with what the probe kept; one that kept other than it says has died of it."""
        if not isinstance(self.outcome, ProbeResult):
            return self
        try:
            return replace(self, artifacts=files.read(self.outcome.files))
        except ProtocolError as error:
            return replace(self, outcome=Died(reason=str(error)))


def conclude(sessions: Sessions, attempt: Attempt, end: End, *, retry_s: float) -> None:
    """Write an end, for ``retry_s`` seconds again and again while the database is away."""
    name = type(end.outcome).__name__
    with span("measurement.finish", outcome=name):
        if not insist(partial(_write, sessions, attempt, end), for_s=retry_s):
            _log.warning("attempt.fenced", job_id=str(attempt.job_id), attempt=attempt.number, outcome=name)


def _write(sessions: Sessions, attempt: Attempt, end: End) -> bool:
    match end.outcome:
        case ProbeResult() as result:
            return outcomes.succeed(sessions, attempt, result, unwritten=end.unwritten, artifacts=end.artifacts)
        case ProbeFailure() as failure:
            return outcomes.refuse(sessions, attempt, failure, unwritten=end.unwritten)
        case DeadlineExceeded(deadline_s=deadline_s):
            return outcomes.time_out(sessions, attempt, deadline_s=deadline_s, unwritten=end.unwritten)
        case Died(reason=reason):
            return give_up(sessions, attempt, reason)
        case Stopped():
            return outcomes.cancel(sessions, attempt, unwritten=end.unwritten)


def give_up(sessions: Sessions, attempt: Attempt, reason: str) -> bool:
    """Hand a job back whose probe died, so that the next attempt begins at once."""
    _log.warning("probe.died", job_id=str(attempt.job_id), attempt=attempt.number, reason=reason)
    return attempts.release(sessions, attempt.job_id, attempt=attempt.number, reason=reason) is not None
