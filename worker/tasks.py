"""One attempt at a job, in its forked process.

It claims the job, runs the probe and writes the outcome, once.
"""

import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

from service.db.records.measurements import PackedArtifact
from service.jobs.contract import (
    JobPayload,
    ProbeFailure,
    ProbeResult,
    ProtocolError,
    RecordingRequest,
)
from service.jobs.states import Lease
from service.runtime.deadline import Allowance, DeadlineExceeded
from service.runtime.line_process import Stopped, kill_group
from service.runtime.logs import get_logger
from service.telemetry.origin import set_origin
from service.telemetry.spans import get_traceparent, send_spans, span
from service.telemetry.tracing import Kind
from service.usecases.jobs import attempts, outcomes
from service.usecases.jobs.attempts import NOTHING_UNWRITTEN, Attempt, Unwritten
from service.usecases.stored import Sessions
from worker.artifact_files import ArtifactFiles, open_files
from worker.context import WorkerContext, build_environ, give_up
from worker.lease import keep_lease
from worker.probe_log import ProbeLog
from worker.process import Died, Outcome, follow_probe, start_probe
from worker.recordings import run_recording
from worker.reporter import Reporter
from worker.retry import retry_while_unavailable

_log = get_logger(__name__)


def run_attempt(context: WorkerContext, sessions: Sessions, payload: JobPayload) -> None:
    """Make the attempt that a notification asks for, unless it is stale."""
    with send_spans("headroom-worker", at_end=True):
        _claim_and_run(context, sessions, payload)


def _claim_and_run(context: WorkerContext, sessions: Sessions, payload: JobPayload) -> None:
    settings = context.settings
    began_ns = time.time_ns()
    attempt = attempts.claim(
        sessions,
        payload,
        worker=context.name,
        lease_s=settings.lease_s,
        deadline_s=settings.job_deadline_s,
    )
    if attempt is None:
        _log.info("attempt.stale", job_id=str(payload.job_id), attempt=payload.attempt)
        return
    ids: dict[str, str | int] = {"job_id": str(attempt.job_id), "attempt": attempt.number}
    parent = attempt.origin.traceparent
    with span(
        "measurement.attempt",
        kind=Kind.CONSUMER,
        parent=parent,
        began_ns=began_ns,
        worker=context.name,
        **ids,
    ):
        set_origin(replace(attempt.origin, traceparent=get_traceparent() or parent), **ids)
        with span("measurement.claim", began_ns=began_ns):
            # What it was of is known only now that it is over.
            _log.info("attempt.began")
        if isinstance(attempt.request, RecordingRequest):
            run_recording(context, sessions, attempt, attempt.request)
        else:
            run_probe(context, sessions, attempt)
        _log.info("attempt.ended")


def run_probe(context: WorkerContext, sessions: Sessions, attempt: Attempt) -> None:
    """Run the probe of a claimed attempt under its lease.

    Writes the outcome.
    """
    settings = context.settings
    deadline_s = settings.probe_deadline_s
    reporter = Reporter(partial(attempts.report, sessions, attempt))
    beat = partial(attempts.renew_lease, sessions, attempt, lease_s=settings.lease_s)
    look = partial(attempts.read_lease, sessions, attempt)
    probe_log = ProbeLog()
    with open_files(attempt.measurement.artifacts) as files, ExitStack() as probing:
        request = attempt.measurement.make_probe_request(
            deadline_s=deadline_s, files=files.descriptors
        )
        probing.enter_context(span("probe", kind=Kind.CLIENT, device=request.device.value))
        # The probe first: it must be started by a process of one thread.
        with (
            start_probe(
                context.probe_command, request, build_environ(attempt), user=context.user
            ) as process,
            keep_lease(beat, look=look, interval_s=settings.heartbeat_s) as watch,
        ):

            def should_stop() -> bool:
                reporter.flush_if_due()
                return not watch.is_held

            outcome = follow_probe(
                process,
                # A probe gives way to other programs (``worker/probes/niceness.py``).
                allowance=Allowance(deadline_s=deadline_s, limit_s=settings.job_deadline_s),
                on_line=reporter.take,
                should_stop=should_stop,
                on_stderr=probe_log.feed,
            )
            kill_group(process)
            probe_log.end()
            probing.close()
            reporter.flush()
            if isinstance(outcome, Stopped) and watch.lease is Lease.LOST:
                _log.warning("attempt.lost", job_id=str(attempt.job_id), attempt=attempt.number)
            else:
                end = AttemptEnd(outcome=outcome, unwritten=reporter.unwritten)
                conclude(sessions, attempt, end.with_files(files), retry_s=settings.finish_retry_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    """The outcome of an attempt and what is stored with it."""

    outcome: Outcome
    unwritten: Unwritten = NOTHING_UNWRITTEN
    artifacts: tuple[PackedArtifact, ...] = ()

    def with_files(self, files: ArtifactFiles) -> "AttemptEnd":
        """Return a copy with the artifacts that the probe wrote.

        A probe whose artifacts differ from its report counts as died.
        """
        if not isinstance(self.outcome, ProbeResult):
            return self
        try:
            return replace(self, artifacts=files.read(self.outcome.files))
        except ProtocolError as error:
            return replace(self, outcome=Died(reason=str(error)))


def conclude(sessions: Sessions, attempt: Attempt, end: AttemptEnd, *, retry_s: float) -> None:
    """Write the end of an attempt.

    Retries for ``retry_s`` seconds while the database is away.
    """
    name = type(end.outcome).__name__
    with span("measurement.finish", outcome=name):
        if not retry_while_unavailable(partial(_write, sessions, attempt, end), for_s=retry_s):
            _log.warning(
                "attempt.fenced", job_id=str(attempt.job_id), attempt=attempt.number, outcome=name
            )


def _write(sessions: Sessions, attempt: Attempt, end: AttemptEnd) -> bool:
    match end.outcome:
        case ProbeResult() as result:
            return outcomes.succeed(
                sessions, attempt, result, unwritten=end.unwritten, artifacts=end.artifacts
            )
        case ProbeFailure() as failure:
            return outcomes.refuse(sessions, attempt, failure, unwritten=end.unwritten)
        case DeadlineExceeded() as exceeded:
            return outcomes.time_out(sessions, attempt, exceeded, unwritten=end.unwritten)
        case Died(reason=reason):
            return give_up(sessions, attempt, reason)
        case Stopped():
            return outcomes.cancel(sessions, attempt, unwritten=end.unwritten)
