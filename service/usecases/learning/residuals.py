"""Residuals of answers, stored as measurements come, and interval misses."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.orm import Session

from service.calibration.conformal import is_coverage_too_low
from service.calibration.derive import Calibration, LeaveOneOut, compute_corrections
from service.calibration.document import from_document
from service.calibration.evidence import Evidence, Quantity
from service.calibration.pool import Group, Level, Member, Pool
from service.db.queries.calibrations import find_newest_of_curve
from service.db.queries.residuals import (
    count_interval_misses,
    mark_surprised,
    read_answers_after,
    write_residuals,
)
from service.db.records.stored import NewResidual, StoredCalibration
from service.estimator.values.result import Estimate, Interval
from service.runtime.logs import get_logger
from service.usecases.learning.evidence import EvidenceSet

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyUpdate:
    """A key's new calibration, its evidence, and its pool.

    The calibration is of one quantity; the pool is what keys like it have in common.
    """

    group: Group
    curve: str
    calibration: Calibration
    pool: Pool | None
    evidence_sets: Mapping[UUID, EvidenceSet]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answers:
    """The analytic answer, and the one from all other measurements.

    The analytic answer has an interval.
    """

    predicted: int
    interval: Interval | None
    after: int


def read_member(stored: StoredCalibration) -> Member | None:
    """Return a stored calibration as a member of its group.

    ``None`` where another version wrote it, or nothing is left of its evidence.
    """
    try:
        calibration = from_document(stored.correction)
    except (KeyError, TypeError, ValueError) as error:
        # A newer version may have written it; what this one cannot read must not correct anything.
        _log.warning("calibration.unreadable", calibration=str(stored.id), error=repr(error))
        return None
    if not calibration.evidence:
        # Everything that had taught it was withdrawn.
        return None
    group = Group(
        quantity=calibration.quantity,
        kind=stored.kind,
        environment=stored.environment,
        family=stored.family,
    )
    gpu = stored.scope.get("gpu")
    return Member(
        key=stored.key, group=group, calibration=calibration, gpu=None if gpu is None else str(gpu)
    )


def read_previous_calibration(
    session: Session, curve: str, quantity: Quantity
) -> Calibration | None:
    """Return the last calibration of a question, in any environment.

    A new measurement is compared with it.
    """
    stored = find_newest_of_curve(session, curve, quantity.value)
    member = None if stored is None else read_member(stored)
    return None if member is None else member.calibration


def record_residuals(
    session: Session, update: KeyUpdate, *, newest: UUID, previous: Calibration | None
) -> None:
    """Store a key's residuals and whether the newest is a surprise.

    Each measurement is compared with the answer that all others taught.
    """
    allocated = (
        read_answers_after(session, update.evidence_sets.keys(), Quantity.ALLOCATED.value)
        if update.group.quantity is Quantity.RESERVED
        else {}
    )
    write_residuals(session, list(_iter_residuals(update, allocated)))
    sample = _find_sample(update, newest)
    if previous is None or sample is None or sample.is_one_sided:
        return
    is_surprise = _is_outside(update.evidence_sets[newest], sample, previous)
    mark_surprised(session, newest, update.group.quantity.value, surprised=is_surprise)
    if not is_surprise:
        return
    group = update.group
    for misses in count_interval_misses(
        session, kind=group.kind, quantity=group.quantity.value, environment=group.environment
    ):
        if is_coverage_too_low(misses.outside, misses.measured):
            _log.warning(
                "calibration.drift",
                kind=group.kind,
                quantity=group.quantity.value,
                environment=group.environment,
                outside=misses.outside,
                measured=misses.measured,
            )


def _iter_residuals(update: KeyUpdate, allocated: Mapping[UUID, int]) -> Iterator[NewResidual]:
    for left_out in update.calibration.left_out:
        job_id = UUID(left_out.measurement)
        sample = _find_sample(update, job_id)
        if sample is not None:
            evidence_set = update.evidence_sets[job_id]
            answers = _Answers(
                predicted=round(sample.peak()),
                interval=compute_analytic_interval(evidence_set, sample),
                after=max(1, left_out.answer),
            )
            if sample.quantity is Quantity.RESERVED:
                answers = _add_allocated(
                    answers, evidence_set.analytic.estimate, allocated.get(job_id)
                )
            yield _make_residual(update, evidence_set, sample, left_out, answers)


def _add_allocated(answers: _Answers, answer: Estimate, allocated: int | None) -> _Answers:
    """Return the answers about all reserved bytes.

    ``answers`` are of what is reserved beyond the allocated bytes, learnt on top of what was
    measured to be allocated.
    """
    before = answer.allocated_bytes
    after = (
        answer.reserved_bytes
        + answers.after
        - answers.predicted
        + (before if allocated is None else allocated)
        - before
    )
    return _Answers(
        predicted=answer.reserved_bytes, interval=answer.reserved_interval, after=max(1, after)
    )


def _make_residual(
    update: KeyUpdate,
    evidence_set: EvidenceSet,
    sample: Evidence,
    left_out: LeaveOneOut,
    answers: _Answers,
) -> NewResidual:
    predicted, interval, after = answers.predicted, answers.interval, answers.after
    level = Level.KEY if not left_out.alone else _get_level(update.pool)
    half_width = None
    if update.pool is not None:
        half_width = update.pool.key_half_width if level is Level.KEY else update.pool.half_width
    request = evidence_set.analytic.request
    return NewResidual(
        job_id=UUID(left_out.measurement),
        quantity=sample.quantity.value,
        curve=update.curve,
        kind=update.group.kind,
        family=update.group.family or "",
        environment=update.group.environment,
        device=request.device.value,
        gpu=evidence_set.environment.gpu or request.gpu,
        measured=sample.measured_peak,
        predicted=predicted,
        interval=None if interval is None else (interval.low, interval.high),
        after=after,
        after_interval=_compute_calibrated_interval(after, predicted, interval, half_width),
        level=level.value,
    )


def _get_level(pool: Pool | None) -> Level:
    return pool.level if pool is not None and pool.shares else Level.NONE


def _compute_calibrated_interval(
    answer: int, predicted: int, interval: Interval | None, half_width: float | None
) -> tuple[int, int] | None:
    """Return the interval around a calibrated answer.

    It is the conformal one, else the shipped one of its kind.
    """
    if half_width is not None:
        return max(0, round(answer * (1 - half_width))), round(answer * (1 + half_width))
    if interval is None:
        return None
    return round(answer * interval.low / predicted), round(answer * interval.high / predicted)


def compute_analytic_interval(evidence_set: EvidenceSet, sample: Evidence) -> Interval | None:
    """Return the analytic interval of what was measured.

    A time has none.
    """
    answer, predicted = evidence_set.analytic.estimate, round(sample.peak())
    match sample.quantity:
        case Quantity.ALLOCATED:
            return answer.allocated_interval
        case Quantity.RESERVED:
            interval = answer.reserved_interval
            low, high = interval.low - answer.reserved_bytes, interval.high - answer.reserved_bytes
            return Interval(max(0, predicted + low), predicted + high)
        case Quantity.DEVICE:
            device, reserved = answer.device_interval, answer.reserved_interval
            return Interval(max(0, device.low - reserved.low), device.high - reserved.high)
        case Quantity.STEP_TIME | Quantity.PREFILL_TIME:
            return None


def _is_outside(evidence_set: EvidenceSet, sample: Evidence, previous: Calibration) -> bool:
    """Return whether a measurement lies outside its promised interval.

    The interval is that of what was learnt before it, joined with the analytic interval around
    that.
    """
    answer = sample.peak(
        compute_corrections(previous.curves, previous.shares, previous.exact, sample)
    )
    allowed = answer * previous.relative_error
    interval, predicted = compute_analytic_interval(evidence_set, sample), sample.peak()
    low, high = answer - allowed, answer + allowed
    if interval is not None:
        low, high = (
            min(low, answer * interval.low / predicted),
            max(high, answer * interval.high / predicted),
        )
    return not low <= sample.measured_peak <= high


def _find_sample(update: KeyUpdate, job_id: UUID) -> Evidence | None:
    evidence_set = update.evidence_sets.get(job_id)
    samples = () if evidence_set is None else evidence_set.evidence
    return next((sample for sample in samples if sample.quantity is update.group.quantity), None)
