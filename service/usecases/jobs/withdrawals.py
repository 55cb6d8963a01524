"""Withdrawal of measurements that should not have taught anything."""

from uuid import UUID

from service.access.keys import Principal
from service.base.errors import MeasurementNotFoundError, NotWithdrawableError
from service.db.owners import read_owner
from service.db.queries import measurements as queries
from service.db.queries.imports import decide
from service.db.queries.recordings import SOURCE as RECORDING
from service.db.session import transaction
from service.db.tables.core import MeasureJobRow
from service.jobs.states import ClaimState, Status
from service.usecases.access.owners import check_owner
from service.usecases.jobs.status_changes import change_status
from service.usecases.learning.learning import unlearn
from service.usecases.stored import Sessions

PHASE = "withdrawn"


def withdraw(
    sessions: Sessions, job_id: UUID, *, by: str | None = None, caller: Principal | None = None
) -> None:
    """Withdraw a measurement and recompute its key's calibrations.

    A measurement that succeeded counts no more. Withdrawing twice is the same as once.

    It stays readable, cancelled after all. What was imported may be imported again. ``by`` is the
    name of whoever withdraws it; of a ``caller`` it must be his.
    """
    with transaction(sessions) as session:
        row = queries.lock_job(session, job_id)
        if row is None:
            message = f"there is no measurement {job_id}"
            raise MeasurementNotFoundError(message)
        check_owner(caller, read_owner(row), what=f"measurement {job_id}")
        if row.phase == PHASE:
            return
        _require_result(row)
        change_status(session, row, Status.CANCELLED, error=None, reason=PHASE)
        row.phase = PHASE
        if row.import_hash is not None:
            row.import_hash = f"{PHASE}:{job_id}"
        decide(session, [job_id], ClaimState.WITHDRAWN, decided_by=by)
        session.flush()
        stored = queries.read_measurement(session, job_id)
        if stored is not None:
            unlearn(session, stored)


def _require_result(row: MeasureJobRow) -> None:
    state = Status(row.state)
    if row.source == RECORDING:
        message = f"measurement {row.id} is the recording of a model, which teaches nothing"
        raise NotWithdrawableError(message, measurement_status=state.value)
    if state is Status.SUCCEEDED:
        return
    instead = "" if state.is_terminal else "; cancel it instead"
    message = (
        f"measurement {row.id} is {state}; only one that has succeeded can be withdrawn{instead}"
    )
    raise NotWithdrawableError(message, measurement_status=state.value)
