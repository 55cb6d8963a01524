"""Residuals: what was traced, recorded and published, over what is answered."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from service.estimator.cache import PlanCache
from service.estimator.estimate import estimate
from service.estimator.memory.intervals.ends import PER_MILLION, get_residual_ends
from service.estimator.memory.intervals.replay_classes import (
    WHOLE_KINDS,
    select_allocated_class,
    select_replay_class,
)
from service.estimator.model.architecture import Architecture
from service.estimator.values.device import Device
from service.estimator.values.errors import EstimatorError
from service.estimator.values.result import Detail, Estimate, Interval
from service.estimator.values.units import GIB
from service.estimator.values.workload import Allocator, TrainWorkload
from tests.accuracy.cases import StepCase, architecture_of, rank_cases, training_cases
from tests.accuracy.conformal import Residual
from tests.accuracy.contract import NotInContractError, Question, question_of_rank, question_of_step
from tests.accuracy.interval_rows import PUBLISHED
from tests.accuracy.published.scoring import PublishedScore
from tests.accuracy.real.scoring import CLIENTS, REQUESTED, RESERVED, RealScore, score_real_runs

DEVICE_QUANTITIES = frozenset({"nvidia-smi", "nvml"})
_DEVICE = Device(name="any", capacity_bytes=1024 * GIB, usable_bytes=1024 * GIB)
_QUANTITIES = {
    "max_memory_allocated": "allocated",
    "active_bytes_peak": "allocated",
    "max_memory_reserved": "reserved",
}


def residuals(published: Sequence[PublishedScore]) -> list[Residual]:
    """Return the residuals of all traced, recorded and published readings of allocated and reserved
    bytes, and of whole GPUs.

    A published reading leaves out some of what it ran, and its residual holds what its author did
    not say. So it sets no width of a kind whose questions were traced or recorded whole; kinds of
    few groups, which are as wide as all together, have it among those.
    """
    plans = PlanCache()
    traced = [
        *_traced(training_cases(), question_of_step, plans),
        *_traced(rank_cases(), question_of_rank, plans),
    ]
    scored = [
        score
        for score in published
        if score.quantity in _QUANTITIES and not score.absolute and score.interval is not None
    ]
    return [
        *traced,
        *_recorded(score_real_runs().scores),
        *map(_published, scored),
        *(_of_device(score) for score in published if sets_width(score)),
    ]


def _recorded(scores: Sequence[RealScore]) -> Iterator[Residual]:
    """Yield what real GPUs read over the answers; of clients the tensors hold workspaces too.

    Every question is a group, on whichever GPU it was asked; a model measures no width that it set.
    """
    for score in scores:
        model = f"gpu/{score.model}"
        group = f"{model}/{score.group}/{score.name}"
        requested, reserved = score.pairs[REQUESTED], score.pairs[RESERVED]
        if score.group not in CLIENTS:
            yield Residual(
                kind=select_allocated_class(score.kind),
                quantity="allocated",
                group=group,
                model=model,
                low=requested.ratio,
                high=requested.ratio,
            )
        yield Residual(
            kind=score.reserved_kind,
            quantity="reserved",
            group=group,
            model=model,
            low=reserved.ratio,
            high=reserved.ratio,
        )


def _get_traced_kind(answer: Estimate) -> str:
    """Return the class of a trace's residual: families that no GPU recorded are judged by it."""
    if answer.interval_kind not in WHOLE_KINDS:
        return answer.interval_kind
    return select_replay_class("", answer.allocated_bytes, answer.reserved_bytes)


def sets_width(score: PublishedScore) -> bool:
    """Return whether a whole GPU's reading is among the residuals of reserved bytes: training, of
    which ranks have streams.
    """
    return score.quantity in DEVICE_QUANTITIES and score.scores_as == "training"


def _of_device(score: PublishedScore) -> Residual:
    """Return what a whole GPU's reading says of reserved bytes, less its context: streams of
    several ranks are in no trace.
    """
    context = dict(score.components)["device_context"]
    reserved = score.predicted - context
    low, high = ((reading - context) / reserved for reading in (score.low, score.high))
    return Residual(
        kind=_get_published_kind(score), quantity="reserved", group=score.group, low=low, high=high
    )


def _get_published_kind(score: PublishedScore) -> str:
    return f"{PUBLISHED}{score.kind}" if score.kind in WHOLE_KINDS else score.kind


def _traced(
    cases: Sequence[StepCase], question_of: Callable[[StepCase], Question], plans: PlanCache
) -> Iterator[Residual]:
    for case in cases:
        try:
            model, question = architecture_of(case), question_of(case)
            workload = question.workload
            assert isinstance(workload, TrainWorkload), "only training was traced with an allocator"
            growing = replace(
                question, workload=replace(workload, allocator=Allocator.EXPANDABLE_SEGMENTS)
            )
            answer, expandable = _answer(model, question, plans), _answer(model, growing, plans)
        except (EstimatorError, NotInContractError):
            continue
        group = f"traced/{case.model}"
        yield _allocated(
            answer.interval_kind,
            group,
            (case.allocated_bytes,) * 2,
            answer.allocated_bytes,
            answer.allocated_interval,
        )
        for found, reserved in (
            (answer, case.reserved_bytes),
            (expandable, case.reserved_expandable_bytes),
        ):
            ratio = reserved / found.reserved_bytes
            kind = _get_traced_kind(found)
            yield Residual(kind=kind, quantity="reserved", group=group, low=ratio, high=ratio)


def _answer(model: Architecture, question: Question, plans: PlanCache) -> Estimate:
    return estimate(
        model,
        question.workload,
        layout=question.layout,
        device=_DEVICE,
        plans=plans,
        detail=Detail.REPLAYED,
    )


def _allocated(
    kind: str, group: str, reading: tuple[float, float], point: float, interval: Interval
) -> Residual:
    """Return a residual beside everything between the tensors and the allocator's blocks, which the
    interval is put around.
    """
    ends = get_residual_ends(select_allocated_class(kind), "allocated")
    blocks = interval.high * PER_MILLION / ends[1]
    low, high = reading[0] / max(blocks, point), reading[1] / point
    return Residual(
        kind=select_allocated_class(kind),
        quantity="allocated",
        group=group,
        low=low,
        high=high,
        blocks=blocks / point,
    )


def _published(score: PublishedScore) -> Residual:
    if _QUANTITIES[score.quantity] == "allocated" and score.interval is not None:
        return replace(
            _allocated(
                score.kind, score.group, (score.low, score.high), score.predicted, score.interval
            ),
            kind=_get_published_kind(score),
        )
    return Residual(
        kind=_get_published_kind(score),
        quantity=_QUANTITIES[score.quantity],
        group=score.group,
        low=score.low / score.predicted,
        high=score.high / score.predicted,
    )
