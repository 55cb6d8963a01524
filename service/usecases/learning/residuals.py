"""How far answers were from measurements, written down as the measurements come, and what surprises among them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.orm import Session

from service.calibration.conformal import too_many_outside
from service.calibration.derive import Calibration, LeftOut, correction_at
from service.calibration.document import from_document
from service.calibration.evidence import Evidence, Quantity
from service.calibration.pool import Group, Level, Member, Pool
from service.db.queries.calibrations import newest_of_curve
from service.db.queries.residuals import answers_after, mark_surprise, surprises, write_residuals
from service.db.records.stored import NewResidual, StoredCalibration
from service.estimator.values.result import Estimate, Interval
from service.runtime.logs import logger
from service.usecases.learning.evidence import Found

_log = logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What one key learnt about one quantity, from what, and what keys like it had in common."""

    group: Group
    curve: str
    calibration: Calibration
    pool: Pool | None
    found: Mapping[UUID, Found]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answers:
    """The analytic answer with its interval, and the one that rests on everything else."""

    predicted: int
    interval: Interval | None
    after: int


def member_of(stored: StoredCalibration) -> Member | None:
    """Return a stored calibration as a member of its group; ``None`` where another version wrote it, or nothing is left."""
    try:
        calibration = from_document(stored.correction)
    except (KeyError, TypeError, ValueError) as error:
        # A newer version may have written it; what this one cannot read must not correct anything.
        _log.warning("calibration.unreadable", calibration=str(stored.id), error=repr(error))
        return None
    if not calibration.evidence:
        # Everything that had taught it was withdrawn.
        return None
    group = Group(quantity=calibration.quantity, kind=stored.kind, environment=stored.environment, family=stored.family)
    gpu = stored.scope.get("gpu")
    return Member(key=stored.key, group=group, calibration=calibration, gpu=None if gpu is None else str(gpu))


def promise_of(session: Session, curve: str, quantity: Quantity) -> Calibration | None:
    """Return what was learnt last about a question, in whatever environment: what a new measurement is held against."""
    stored = newest_of_curve(session, curve, quantity.value)
    member = None if stored is None else member_of(stored)
    return None if member is None else member.calibration


def write_down(session: Session, lesson: Lesson, *, newest: UUID, promise: Calibration | None) -> None:
    """Store the residuals of a key's measurements, each against what all others taught, and whether the newest surprised."""
    allocated = (
        answers_after(session, lesson.found.keys(), Quantity.ALLOCATED.value)
        if lesson.group.quantity is Quantity.RESERVED
        else {}
    )
    write_residuals(session, list(_residuals(lesson, allocated)))
    sample = _sample(lesson, newest)
    if promise is None or sample is None or sample.is_one_sided:
        return
    surprised = _is_outside(lesson.found[newest], sample, promise)
    mark_surprise(session, newest, lesson.group.quantity.value, surprised=surprised)
    if not surprised:
        return
    group = lesson.group
    for counted in surprises(session, kind=group.kind, quantity=group.quantity.value, environment=group.environment):
        if too_many_outside(counted.outside, counted.measured):
            _log.warning(
                "calibration.drift",
                kind=group.kind,
                quantity=group.quantity.value,
                environment=group.environment,
                outside=counted.outside,
                measured=counted.measured,
            )


def _residuals(lesson: Lesson, allocated: Mapping[UUID, int]) -> Iterator[NewResidual]:
    for held in lesson.calibration.left_out:
        job_id = UUID(held.measurement)
        sample = _sample(lesson, job_id)
        if sample is not None:
            found = lesson.found[job_id]
            answers = _Answers(
                predicted=round(sample.peak()), interval=analytic_interval(found, sample), after=max(1, held.answer)
            )
            if sample.quantity is Quantity.RESERVED:
                answers = _whole(answers, found.answered.estimate, allocated.get(job_id))
            yield _residual(lesson, found, sample, held, answers)


def _whole(beyond: _Answers, answer: Estimate, allocated: int | None) -> _Answers:
    """Return what is answered about reserved bytes: what lies beyond was learnt on top of what was measured to be allocated."""
    before = answer.allocated_bytes
    after = answer.reserved_bytes + beyond.after - beyond.predicted + (before if allocated is None else allocated) - before
    return _Answers(predicted=answer.reserved_bytes, interval=answer.reserved_interval, after=max(1, after))


def _residual(lesson: Lesson, found: Found, sample: Evidence, held: LeftOut, answers: _Answers) -> NewResidual:
    predicted, interval, after = answers.predicted, answers.interval, answers.after
    level = Level.KEY if not held.alone else _level(lesson.pool)
    half = None
    if lesson.pool is not None:
        half = lesson.pool.key_half_width if level is Level.KEY else lesson.pool.half_width
    request = found.answered.request
    return NewResidual(
        job_id=UUID(held.measurement),
        quantity=sample.quantity.value,
        curve=lesson.curve,
        kind=lesson.group.kind,
        family=lesson.group.family or "",
        environment=lesson.group.environment,
        device=request.device.value,
        gpu=found.environment.gpu or request.gpu,
        measured=sample.measured_peak,
        predicted=predicted,
        interval=None if interval is None else (interval.low, interval.high),
        after=after,
        after_interval=_after(after, predicted, interval, half),
        level=level.value,
    )


def _level(pool: Pool | None) -> Level:
    return pool.level if pool is not None and pool.shares else Level.NONE


def _after(answer: int, predicted: int, interval: Interval | None, half: float | None) -> tuple[int, int] | None:
    """Return the interval around an answer: the conformal one, else the shipped one of its kind."""
    if half is not None:
        return max(0, round(answer * (1 - half))), round(answer * (1 + half))
    if interval is None:
        return None
    return round(answer * interval.low / predicted), round(answer * interval.high / predicted)


def analytic_interval(found: Found, sample: Evidence) -> Interval | None:
    """Return the interval that the analytic answer gives for what was measured; a time has none."""
    answer, predicted = found.answered.estimate, round(sample.peak())
    match sample.quantity:
        case Quantity.ALLOCATED:
            return answer.allocated_interval
        case Quantity.RESERVED:
            around = answer.reserved_interval
            low, high = around.low - answer.reserved_bytes, around.high - answer.reserved_bytes
            return Interval(max(0, predicted + low), predicted + high)
        case Quantity.DEVICE:
            whole, inside = answer.device_interval, answer.reserved_interval
            return Interval(max(0, whole.low - inside.low), whole.high - inside.high)
        case Quantity.STEP_TIME:
            return None


def _is_outside(found: Found, sample: Evidence, promise: Calibration) -> bool:
    """Tell whether a measurement lies outside of what was learnt before it, and of the analytic interval around that."""
    answer = sample.peak(correction_at(promise.curves, promise.shares, promise.exact, sample))
    allowed = answer * promise.relative_error
    interval, predicted = analytic_interval(found, sample), sample.peak()
    low, high = answer - allowed, answer + allowed
    if interval is not None:
        low, high = min(low, answer * interval.low / predicted), max(high, answer * interval.high / predicted)
    return not low <= sample.measured_peak <= high


def _sample(lesson: Lesson, job_id: UUID) -> Evidence | None:
    found = lesson.found.get(job_id)
    samples = () if found is None else found.evidence
    return next((sample for sample in samples if sample.quantity is lesson.group.quantity), None)
