"""What newer measurements say of older calibrations, and measuring them again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from msgspec import structs

from service.base.errors import InvalidRequestError, NotFoundError
from service.calibration.conformal import too_many_outside
from service.calibration.environment import Place
from service.db.queries import residuals as queries
from service.db.queries.calibrations import read_calibration
from service.db.queries.measurements import read_measurement
from service.db.records.measurements import StoredMeasurement
from service.db.records.stored import CurveHistory, StoredCalibration
from service.db.session import transaction
from service.jobs.contract import MeasureRequest, parse_measure_request
from service.jobs.notify import Ring
from service.runtime.settings import Settings
from service.usecases.idempotency import RequestKey, num_new
from service.usecases.jobs.measurements import submit
from service.usecases.stored import Sessions

PlaceOf = Callable[[str], Place]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Where a calibration was made, what runs now, and how far each was from the analytic answer (mean, as a share)."""

    is_stale: bool
    current_environment: str
    measured: int
    outside: int
    bias: float | None
    current_bias: float | None

    @property
    def is_drifting(self) -> bool:
        """Whether more lie outside of their intervals than the level lets expect."""
        return too_many_outside(self.outside, self.measured)


def drifts(sessions: Sessions, calibrations: Sequence[StoredCalibration], place_of: PlaceOf) -> tuple[Drift, ...]:
    """Return the drift of each calibration; ``place_of`` says what runs now on a GPU, and without one."""
    curves = {stored.curve for stored in calibrations}
    with transaction(sessions) as session:
        known = queries.histories(session, curves) if curves else ()
    by_place = {(history.curve, history.quantity, history.environment): history for history in known}
    return tuple(_drift(stored, place_of(str(stored.scope.get("gpu") or "")), by_place) for stored in calibrations)


def remeasure(
    sessions: Sessions,
    calibration_id: UUID,
    *,
    settings: Settings,
    ring: Ring,
    key: RequestKey | None = None,
    charge: Callable[[int], None] = lambda _number: None,
) -> tuple[StoredMeasurement, ...]:
    """Ask again for every size that a calibration rests on; the same ``key`` asks once, ``charge`` may refuse their number."""
    with transaction(sessions) as session:
        calibration = read_calibration(session, calibration_id)
        if calibration is None:
            message = f"there is no calibration {calibration_id}"
            raise NotFoundError(message)
        found = [read_measurement(session, job_id) for job_id in calibration.evidence]
    probed = [stored for stored in found if stored is not None and stored.source == "probe"]
    requests = {_size(stored): stored for stored in probed}
    if not requests:
        message = (
            f"calibration {calibration_id} rests on no measurement that a worker here could repeat; "
            "ask for one with POST /v1/measurements"
        )
        raise InvalidRequestError(message)
    asked = [(stored, None if key is None else _repeatable(key, stored)) for stored in requests.values()]
    # All of them or none, and nothing for who asks again for what he has asked for.
    if number := num_new(sessions, [repeatable for _, repeatable in asked]):
        charge(number)
    return tuple(
        submit(
            sessions,
            # Its numbers are what is asked for again; files beside them would cost the time of its steps.
            structs.replace(parse_measure_request(stored.request), artifacts=()),
            key=stored.key,
            settings=settings,
            ring=ring,
            idempotency=repeatable,
        )
        for stored, repeatable in asked
    )


def _repeatable(key: RequestKey, stored: StoredMeasurement) -> RequestKey:
    return replace(key, route=f"{key.route} {stored.id}")


def _size(stored: StoredMeasurement) -> str:
    """Return what two measurements have in common that asked for the same."""
    request: MeasureRequest = parse_measure_request(stored.request)
    return repr((request.task, request.layout, request.device, request.gpu, request.full_depth, request.model.architecture))


def _drift(stored: StoredCalibration, place: Place, known: dict[tuple[str, str, str], CurveHistory]) -> Drift:
    place = place.alike(stored.environment)
    nothing = CurveHistory(curve=stored.curve, quantity=stored.quantity, environment="", measured=0, outside=0, bias=None)
    then = known.get((stored.curve, stored.quantity, stored.environment), nothing)
    now = known.get((stored.curve, stored.quantity, place.name), replace(nothing, environment=place.name))
    return Drift(
        is_stale=stored.environment != place.name,
        current_environment=place.name,
        measured=now.measured,
        outside=now.outside,
        bias=then.bias,
        current_bias=now.bias,
    )
