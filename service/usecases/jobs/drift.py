"""Drift of calibrations, and their measurement anew."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from msgspec import structs

from service.access.keys import Principal
from service.base.errors import InvalidRequestError, NotFoundError
from service.calibration.conformal import is_coverage_too_low
from service.calibration.environment import EnvironmentKey
from service.db.queries import residuals as queries
from service.db.queries.calibrations import read_calibration
from service.db.queries.measurements import read_measurement
from service.db.records.measurements import StoredMeasurement
from service.db.records.stored import CurveHistory, StoredCalibration
from service.db.session import transaction
from service.jobs.contract import MeasureRequest, parse_measure_request
from service.jobs.notify import Notify
from service.runtime.settings import Settings
from service.usecases.idempotency import RequestKey
from service.usecases.jobs.measurements import Submission, submit_all
from service.usecases.stored import Sessions

FindEnvironmentKey = Callable[[str], EnvironmentKey]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Environment and bias of a calibration, then and now.

    Biases are mean relative differences of measurements from the analytic answer, as a share.
    """

    is_stale: bool
    current_environment: str
    measured: int
    outside: int
    bias: float | None
    current_bias: float | None

    @property
    def is_drifting(self) -> bool:
        """Whether more intervals are missed than the level lets expect."""
        return is_coverage_too_low(self.outside, self.measured)


def list_drifts(
    sessions: Sessions,
    calibrations: Sequence[StoredCalibration],
    find_environment_key: FindEnvironmentKey,
) -> tuple[Drift, ...]:
    """Return the drift of each calibration.

    ``find_environment_key`` gives what runs now on a GPU, and without one.
    """
    curves = {stored.curve for stored in calibrations}
    with transaction(sessions) as session:
        histories = queries.list_histories(session, curves) if curves else ()
    by_place = {
        (history.curve, history.quantity, history.environment): history for history in histories
    }
    return tuple(
        _compute_drift(stored, find_environment_key(str(stored.scope.get("gpu") or "")), by_place)
        for stored in calibrations
    )


def remeasure(
    sessions: Sessions,
    calibration_id: UUID,
    *,
    settings: Settings,
    notify: Notify,
    key: RequestKey | None = None,
    caller: Principal | None = None,
) -> tuple[StoredMeasurement, ...]:
    """Submit again every size that a calibration rests on.

    All of them or none, by the ``caller``'s quota; the same ``key`` submits once.
    """
    with transaction(sessions) as session:
        calibration = read_calibration(session, calibration_id)
        if calibration is None:
            message = f"there is no calibration {calibration_id}"
            raise NotFoundError(message)
        measurements = [read_measurement(session, job_id) for job_id in calibration.evidence]
    probed = [stored for stored in measurements if stored is not None and stored.source == "probe"]
    requests = {_identify_request(stored): stored for stored in probed}
    if not requests:
        message = (
            f"calibration {calibration_id} rests on no measurement that a worker here could "
            "repeat; ask for one with POST /v1/measurements"
        )
        raise InvalidRequestError(message)
    submissions = [
        Submission(
            # Its numbers are what is asked for again; files beside them would cost the time of its
            # steps.
            request=structs.replace(parse_measure_request(stored.request), artifacts=()),
            key=stored.key,
            idempotency=None if key is None else _make_repeat_key(key, stored),
        )
        for stored in requests.values()
    ]
    return submit_all(sessions, submissions, settings=settings, notify=notify, caller=caller)


def _make_repeat_key(key: RequestKey, stored: StoredMeasurement) -> RequestKey:
    return replace(key, route=f"{key.route} {stored.id}")


def _identify_request(stored: StoredMeasurement) -> str:
    """Return a text that is equal for equal requests."""
    request: MeasureRequest = parse_measure_request(stored.request)
    return repr(
        (
            request.task,
            request.layout,
            request.device,
            request.gpu,
            request.full_depth,
            request.model.architecture,
        ),
    )


def _compute_drift(
    stored: StoredCalibration,
    environment_key: EnvironmentKey,
    histories: dict[tuple[str, str, str], CurveHistory],
) -> Drift:
    environment_key = environment_key.match_kernel(stored.environment)
    nothing = CurveHistory(
        curve=stored.curve,
        quantity=stored.quantity,
        environment="",
        measured=0,
        outside=0,
        bias=None,
    )
    then = histories.get((stored.curve, stored.quantity, stored.environment), nothing)
    now = histories.get(
        (stored.curve, stored.quantity, environment_key.name),
        replace(nothing, environment=environment_key.name),
    )
    return Drift(
        is_stale=stored.environment != environment_key.name,
        current_environment=environment_key.name,
        measured=now.measured,
        outside=now.outside,
        bias=then.bias,
        current_bias=now.bias,
    )
