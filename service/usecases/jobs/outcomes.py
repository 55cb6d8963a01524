"""Outcomes of an attempt: a stored result, or a failure reason."""

from collections.abc import Sequence
from dataclasses import asdict

import msgspec
from sqlalchemy.orm import Session

from service.db.queries.artifacts import add_artifacts
from service.db.records.measurements import PackedArtifact
from service.db.tables.core import MeasurementResultRow
from service.jobs.contract import ProbeFailure, ProbeResult
from service.jobs.states import Status
from service.runtime.deadline import DeadlineExceeded
from service.usecases.jobs.attempts import NOTHING_UNWRITTEN, Attempt, Unwritten, settle
from service.usecases.jobs.status_changes import Problem, make_problem
from service.usecases.learning.learning import learn
from service.usecases.learning.predictions import Prediction, predict
from service.usecases.stored import Sessions


def succeed(
    sessions: Sessions,
    attempt: Attempt,
    result: ProbeResult,
    *,
    unwritten: Unwritten = NOTHING_UNWRITTEN,
    artifacts: Sequence[PackedArtifact] = (),
) -> bool:
    """Store a result with its artifacts and calibrations, and end the job.

    All or nothing. Return False when a later attempt holds the job.
    """
    prediction = predict(attempt.measurement, result)

    def write(session: Session) -> None:
        row = _make_result_row(attempt, result, prediction)
        session.add(row)
        session.flush()
        add_artifacts(session, attempt.job_id, attempt=attempt.number, artifacts=artifacts)
        row.calibration_id = learn(session, attempt.job_id, key=attempt.key)

    return settle(sessions, attempt, status=Status.SUCCEEDED, write=write, unwritten=unwritten)


def refuse(
    sessions: Sessions,
    attempt: Attempt,
    failure: ProbeFailure,
    *,
    unwritten: Unwritten = NOTHING_UNWRITTEN,
) -> bool:
    """Fail a job that its probe cannot run.

    Another attempt would give the same refusal.
    """
    return settle(
        sessions,
        attempt,
        status=Status.FAILED,
        error=make_refusal_problem(failure),
        unwritten=unwritten,
    )


def make_refusal_problem(failure: ProbeFailure) -> Problem:
    """Return a probe's refusal as the problem document of its measurement."""
    return make_problem(
        f"probe-{failure.kind.value.removeprefix('probe-')}",
        "The probe cannot run this",
        failure.message,
    )


def time_out(
    sessions: Sessions,
    attempt: Attempt,
    exceeded: DeadlineExceeded,
    *,
    unwritten: Unwritten = NOTHING_UNWRITTEN,
) -> bool:
    """Fail a job whose probe was killed at its deadline.

    Another attempt would run into it too.
    """
    error = make_problem(
        "deadline-exceeded", "The probe took too long", describe_deadline(exceeded)
    )
    return settle(sessions, attempt, status=Status.FAILED, error=error, unwritten=unwritten)


def describe_deadline(exceeded: DeadlineExceeded) -> str:
    """Return why a probe was killed, and what would help."""
    if exceeded.waited_s < exceeded.deadline_s:
        return (
            f"the probe was killed after {exceeded.deadline_s:.0f} s; ask for fewer tokens or "
            "layers, or raise HEADROOM_PROBE_DEADLINE_S"
        )
    return (
        f"the probe waited {exceeded.waited_s:.0f} s for a processor that other programs had, and "
        "was killed; ask again when the host has less to do, or raise HEADROOM_JOB_DEADLINE_S"
    )


def cancel(
    sessions: Sessions, attempt: Attempt, *, unwritten: Unwritten = NOTHING_UNWRITTEN
) -> bool:
    """End a cancelled job whose probe was killed."""
    return settle(sessions, attempt, status=Status.CANCELLED, unwritten=unwritten)


def _make_result_row(
    attempt: Attempt, result: ProbeResult, prediction: Prediction | None
) -> MeasurementResultRow:
    document = msgspec.to_builtins(result)
    return MeasurementResultRow(
        job_id=attempt.job_id,
        attempt=attempt.number,
        environment=document["environment"],
        peaks=document["peaks"],
        instants=document["instants"],
        probes=document["probes"],
        step_time=document["step_time_s"],
        prediction=None if prediction is None else asdict(prediction),
        extrapolated=result.extrapolated,
        transferable=result.transferable,
        steady_bytes=result.steady_bytes,
        notes=document["notes"],
    )
