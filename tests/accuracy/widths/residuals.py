"""Residuals: what was traced, recorded and published, over what is answered."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from service.estimator.cache import PlanCache
from service.estimator.estimate import estimate
from service.estimator.memory.intervals.ends import PER_MILLION, get_residual_ends
from service.estimator.memory.intervals.replay_classes import (
    ELSEWHERE_CLASS,
    RANKS_CLASS,
    RECORDED_CLASS,
    RECORDED_FAMILIES,
    SERVED_CLASS,
    TENSORS_CLASS,
    VARIANT_CLASS,
    WHOLE_KINDS,
    select_replay_class,
)
from service.estimator.model.architecture import Architecture
from service.estimator.values.device import Device
from service.estimator.values.errors import EstimatorError
from service.estimator.values.result import Detail, Estimate, Interval
from service.estimator.values.units import GIB
from service.estimator.values.workload import Allocator, TrainWorkload
from tests.accuracy.cases import (
    StepCase,
    architecture_of,
    make_traced_plans,
    rank_cases,
    training_cases,
)
from tests.accuracy.contract import NotInContractError, Question, question_of_rank, question_of_step
from tests.accuracy.published.scoring import PublishedScore
from tests.accuracy.real.scoring import CLIENTS, REQUESTED, RESERVED, RealScore, score_real_runs
from tests.accuracy.widths.conformal import Residual

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
    not say: it judges no answer about a GPU whose runs were recorded whole.
    """
    plans = make_traced_plans()
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
        *_judge_elsewhere(_recorded(score_real_runs().scores)),
        *map(_published, scored),
        *(
            replace(_published(score), kind=ELSEWHERE_CLASS)
            for score in scored
            if _QUANTITIES[score.quantity] == "reserved" and score.reserved_kind == ELSEWHERE_CLASS
        ),
        *(_of_device(score) for score in published if sets_width(score)),
    ]


def _recorded(scores: Sequence[RealScore]) -> Iterator[Residual]:
    """Yield what real GPUs read over the answers; of clients the tensors hold workspaces too.

    Every question is a group, on whichever GPU it was asked; a model measures no width that it set.
    """
    for score in scores:
        model = f"gpu/{score.model}"
        is_variant = score.reserved_kind == VARIANT_CLASS
        group = model if is_variant else f"{model}/{score.group}/{score.name}"
        requested, reserved = score.pairs[REQUESTED], score.pairs[RESERVED]
        if score.group not in CLIENTS:
            yield Residual(
                kind=_get_allocated_kind(score),
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


def _judge_elsewhere(recorded: Iterable[Residual]) -> Iterator[Residual]:
    """Yield residuals, those of recorded families for answers about other GPUs as well.

    What such families run otherwise is judged by them too, model by model.
    """
    for residual in recorded:
        yield residual
        if residual.kind == SERVED_CLASS:
            yield replace(residual, kind=RECORDED_CLASS)
        if residual.kind in {RECORDED_CLASS, SERVED_CLASS}:
            yield replace(residual, kind=ELSEWHERE_CLASS)
            yield replace(residual, kind=VARIANT_CLASS, group=residual.model)


def _get_allocated_kind(score: RealScore) -> str:
    is_counted = score.kind in WHOLE_KINDS or score.reserved_kind == RANKS_CLASS
    return TENSORS_CLASS if is_counted else score.kind


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
    return Residual(kind=score.kind, quantity="reserved", group=score.group, low=low, high=high)


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
        allocated = _allocated(
            answer.interval_kind,
            group,
            (case.allocated_bytes,) * 2,
            answer.allocated_bytes,
            get_blocks(answer.allocated_kind, answer.allocated_interval),
        )
        yield allocated
        is_recorded = model.family in RECORDED_FAMILIES
        if answer.interval_kind in WHOLE_KINDS or is_recorded:
            yield replace(allocated, kind=TENSORS_CLASS, model=group)
        for found, reserved in (
            (answer, case.reserved_bytes),
            (expandable, case.reserved_expandable_bytes),
        ):
            ratio = reserved / found.reserved_bytes
            residual = Residual(
                kind=found.interval_kind, quantity="reserved", group=group, low=ratio, high=ratio
            )
            yield residual
            if found.interval_kind in WHOLE_KINDS:
                # Families that no GPU recorded are judged by traces.
                kind = select_replay_class("", found.allocated_bytes, found.reserved_bytes)
                yield replace(residual, kind=kind, model=group)
            if is_recorded:
                near = VARIANT_CLASS if found.interval_kind in WHOLE_KINDS else RANKS_CLASS
                yield replace(residual, kind=near, model=group)


def _answer(model: Architecture, question: Question, plans: PlanCache) -> Estimate:
    return estimate(
        model,
        question.workload,
        layout=question.layout,
        device=_DEVICE,
        plans=plans,
        detail=Detail.REPLAYED,
    )


def get_blocks(allocated_kind: str, interval: Interval) -> float:
    """Return the bytes of the allocator's blocks, which an interval is put around."""
    return interval.high * PER_MILLION / get_residual_ends(allocated_kind, "allocated")[1]


def _allocated(
    kind: str, group: str, reading: tuple[float, float], point: float, blocks: float
) -> Residual:
    """Return a residual beside everything between the tensors and the allocator's blocks."""
    low, high = reading[0] / max(blocks, point), reading[1] / point
    return Residual(
        kind=kind,
        quantity="allocated",
        group=group,
        low=low,
        high=high,
        blocks=blocks / point,
    )


def _published(score: PublishedScore) -> Residual:
    if _QUANTITIES[score.quantity] == "allocated" and score.interval is not None:
        return _allocated(
            score.kind,
            score.group,
            (score.low, score.high),
            score.predicted,
            get_blocks(score.allocated_kind, score.interval),
        )
    return Residual(
        kind=score.kind,
        quantity=_QUANTITIES[score.quantity],
        group=score.group,
        low=score.low / score.predicted,
        high=score.high / score.predicted,
    )
