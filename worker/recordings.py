"""One attempt at a recording, under its lease."""

from functools import partial
from typing import Any

from service.base.errors import ServiceError
from service.estimator.values.errors import EstimatorError
from service.jobs.contract import Progress, RecordingRequest
from service.jobs.states import Lease
from service.runtime.deadline import DeadlineExceeded
from service.runtime.line_process import Stopped
from service.runtime.logs import get_logger
from service.telemetry.spans import span
from service.telemetry.tracing import Kind
from service.usecases.jobs import attempts, outcomes
from service.usecases.jobs.attempts import Attempt
from service.usecases.recordings.recorder import (
    DEADLINE_S,
    Died,
    Outcome,
    Recorded,
    Refused,
    StaticPart,
    Update,
    record_config,
)
from service.usecases.stored import Sessions
from service.usecases.stored_specs import recorded
from worker.context import WorkerContext, build_environ, give_up
from worker.lease import keep_lease
from worker.reporter import Reporter
from worker.retry import retry_while_unavailable

_PERCENT = 100
_log = get_logger(__name__)


def run_recording(
    context: WorkerContext, sessions: Sessions, attempt: Attempt, request: RecordingRequest
) -> None:
    """Record the config of a claimed attempt under its lease.

    Weights are stored as soon as they are counted. Writes the outcome.
    """
    settings = context.settings
    reporter = Reporter(partial(attempts.report, sessions, attempt))
    beat = partial(attempts.renew_lease, sessions, attempt, lease_s=settings.lease_s)
    look = partial(attempts.read_lease, sessions, attempt)
    with (
        span("recorder", kind=Kind.CLIENT),
        keep_lease(beat, look=look, interval_s=settings.heartbeat_s) as watch,
    ):

        def should_stop() -> bool:
            reporter.flush_if_due()
            return not watch.is_held

        outcome = _record(
            request,
            on_update=partial(_take_update, sessions, attempt, reporter),
            should_stop=should_stop,
            command=context.recorder_command,
            deadline_s=min(settings.probe_deadline_s, DEADLINE_S),
            environ=build_environ(attempt),
            user=context.user,
        )
        reporter.flush()
        if isinstance(outcome, Stopped) and watch.lease is Lease.LOST:
            _log.warning("attempt.lost", job_id=str(attempt.job_id), attempt=attempt.number)
            return
        write = partial(_write, sessions, attempt, outcome)
        if not retry_while_unavailable(write, for_s=settings.finish_retry_s):
            _log.warning(
                "attempt.fenced",
                job_id=str(attempt.job_id),
                attempt=attempt.number,
                outcome=type(outcome).__name__,
            )


def _record(request: RecordingRequest, **options: Any) -> Outcome:  # noqa: ANN401 - passed on as they are
    try:
        return record_config(request.config, **options)
    except EstimatorError as error:
        return Refused(message=error.message)


def _take_update(sessions: Sessions, attempt: Attempt, reporter: Reporter, update: Update) -> None:
    if isinstance(update, StaticPart):
        try:
            recorded.store_weights(sessions, attempt, update)
        except ServiceError as error:
            # The recording has them too: who asks meanwhile is told less.
            _log.warning("weights.missed", reason=error.detail)
        return
    reporter.take(
        Progress(
            phase=update.phase,
            done=round(update.fraction * _PERCENT),
            total=_PERCENT,
            fraction=update.fraction,
        )
    )


def _write(sessions: Sessions, attempt: Attempt, outcome: Outcome) -> bool:
    match outcome:
        case Recorded(document=document):
            try:
                return recorded.complete(sessions, attempt, document)
            except EstimatorError as error:
                return recorded.refuse(sessions, attempt, error.message)
        case Refused(message=message):
            return recorded.refuse(sessions, attempt, message)
        case DeadlineExceeded(deadline_s=deadline_s):
            message = f"recording took longer than {deadline_s:.0f} s and was ended"
            return recorded.refuse(sessions, attempt, message)
        case Died(reason=reason):
            return give_up(sessions, attempt, reason)
        case Stopped():
            return outcomes.cancel(sessions, attempt)
