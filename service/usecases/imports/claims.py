"""Field data: who brought measurements, and which of them count.

What a program at a job's side reports, anybody with its key can make up: it waits for an operator,
who approves or withdraws a source at once. What is far from the answer is held apart, and approved
by its id alone.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from service.base.errors import InvalidRequestError, NotFoundError
from service.db.queries import imports as queries
from service.db.queries.measurements import read_measurement
from service.db.records.claims import Claim, SourceCount
from service.db.session import transaction
from service.estimator.values.result import Interval
from service.formats.measured.reading import Quantity
from service.jobs.states import ClaimState
from service.usecases.imports.comparison import QuantityComparison
from service.usecases.jobs.withdrawals import withdraw
from service.usecases.learning.learning import learn
from service.usecases.stored import Sessions

FAR = 2
"""Half widths of the 0.95 interval beyond which a reading is far from its answer: 4 standard
deviations of a normal error, 1 reading in 16,000.
"""
MAX_AT_ONCE = 1000
_BOUNDING = frozenset({Quantity.DEVICE, Quantity.DEVICE_TOTAL_USED})
"""Quantities whose readings raise answers and never lower one: too small a one has no effect."""
_TEACHING = (Quantity.ALLOCATED, *_BOUNDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """Whoever brings measurements.

    ``key`` is the id of the key or the subject of the token; an operator is ``trusted``, and need
    not approve what he brings.
    """

    name: str
    key: str | None = None
    trusted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Measurements that were decided.

    ``has_more`` says that their source has more.
    """

    ids: tuple[UUID, ...]
    has_more: bool = False


def make_claim(
    compared: Iterable[QuantityComparison], claimant: Claimant, *, cluster: str | None = None
) -> Claim:
    """Return the claim of a measurement that somebody brings now."""
    if claimant.trusted:
        return Claim(
            source=claimant.name,
            source_key=claimant.key,
            state=ClaimState.APPROVED,
            decided_by=claimant.name,
            cluster=cluster,
        )
    reason = explain_distance(compared)
    return Claim(
        source=claimant.name,
        source_key=claimant.key,
        state=ClaimState.PENDING if reason is None else ClaimState.HELD,
        reason=reason,
        cluster=cluster,
    )


def explain_distance(compared: Iterable[QuantityComparison]) -> str | None:
    """Explain why a reading is far from its answer.

    It is then not approved with others. ``None`` where it is near; what cannot be compared is as
    far as anything.
    """
    teaching = [comparison for comparison in compared if comparison.quantity in _TEACHING]
    for comparison in teaching:
        if comparison.interval is None:
            continue
        low, high = _widen(comparison.predicted, comparison.interval)
        value = comparison.measured.value
        if value > high or (value < low and comparison.quantity not in _BOUNDING):
            return (
                f"{value:,} {comparison.quantity.value.replace('_', ' ')} are outside {low:,} to "
                f"{high:,}, {FAR} half widths of the answer's interval around "
                f"{comparison.predicted:,}"
            )
    if not any(comparison.interval is not None for comparison in teaching):
        return "nothing of it can be compared with an answer and its interval"
    return None


def list_sources(sessions: Sessions) -> tuple[SourceCount, ...]:
    """Return every source with its measurements by state, newest first."""
    with transaction(sessions) as session:
        return queries.list_sources(session)


def approve(
    sessions: Sessions,
    *,
    source: str | None,
    job_ids: Sequence[UUID],
    by: str,
    cluster: str | None = None,
) -> Decision:
    """Let measurements teach, by their ids or of a source.

    Of a source, or of what it brought of one ``cluster``, up to 1,000 that wait are decided. What
    is held apart is approved by its id alone.
    Raises NotFoundError for an id that nobody brought.
    """
    ids, has_more = _choose(sessions, source, job_ids, (ClaimState.PENDING,), cluster=cluster)
    approved: list[UUID] = []
    for job_id in ids:
        # Each by itself: the keys that they teach are locked until the transaction is over.
        with transaction(sessions) as session:
            if queries.decide(session, [job_id], ClaimState.APPROVED, decided_by=by):
                stored = read_measurement(session, job_id)
                if stored is not None:
                    queries.set_calibration(session, job_id, learn(session, job_id, key=stored.key))
                approved.append(job_id)
    return Decision(ids=tuple(approved), has_more=has_more)


def withdraw_source(
    sessions: Sessions, source: str, *, by: str, cluster: str | None = None
) -> Decision:
    """Withdraw up to 1,000 measurements of a source.

    With ``cluster``, of what it brought of that one. Nothing of it teaches any more once this
    begins; what it taught is learnt anew, one measurement after the other.
    """
    with transaction(sessions) as session:
        queries.exclude_source(session, source, decided_by=by, cluster=cluster)
    waiting = (ClaimState.PENDING, ClaimState.HELD)
    ids, has_more = _choose(sessions, source, (), waiting, cluster=cluster)
    for job_id in ids:
        withdraw(sessions, job_id, by=by)
    return Decision(ids=ids, has_more=has_more)


def _choose(
    sessions: Sessions,
    source: str | None,
    job_ids: Sequence[UUID],
    states: Sequence[ClaimState],
    *,
    cluster: str | None = None,
) -> tuple[tuple[UUID, ...], bool]:
    """Return the measurements meant, and whether there are more."""
    if (source is None) == (not job_ids):
        message = "name a source, or ids of measurements: one of the two"
        raise InvalidRequestError(message, errors=[{"field": "source", "message": message}])
    if source is None and cluster is not None:
        message = (
            "ids say which measurements are meant, whichever cluster they are of: leave one out"
        )
        raise InvalidRequestError(message, errors=[{"field": "cluster", "message": message}])
    with transaction(sessions) as session:
        if source is not None:
            found_ids = queries.list_ids(
                session, source, states, limit=MAX_AT_ONCE + 1, cluster=cluster
            )
            return tuple(found_ids[:MAX_AT_ONCE]), len(found_ids) > MAX_AT_ONCE
        known = queries.read_claims(session, job_ids)
    unknown = [str(job_id) for job_id in job_ids if job_id not in known]
    if unknown:
        message = f"nobody brought {unknown[0]}: it is no measurement, or a probe's"
        raise NotFoundError(message)
    return tuple(job_ids), False


def _widen(predicted: int, interval: Interval) -> tuple[int, int]:
    return (
        predicted - FAR * (predicted - interval.low),
        predicted + FAR * (interval.high - predicted),
    )
