"""``python -m tests.accuracy.intervals [--write]``: sets widths of intervals from residuals, and
measures what they cover.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

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
from tests.accuracy.conformal import (
    LEVEL,
    MIN_GROUPS,
    NUM_FOLDS,
    Residual,
    Width,
    binomial_range,
    carried,
    coverage,
    fold_of,
    holds,
    width,
)
from tests.accuracy.contract import NotInContractError, Question, question_of_rank, question_of_step
from tests.accuracy.interval_rows import sources_of, table_of
from tests.accuracy.published.rows import published_cases
from tests.accuracy.published.scoring import PublishedScore, score_published
from tests.accuracy.real.scoring import CLIENTS, REQUESTED, RESERVED, RealScore, score_real_runs

TABLES = Path(__file__).resolve().parents[2] / "service" / "estimator" / "memory" / "intervals"
_DEVICE = Device(name="any", capacity_bytes=1024 * GIB, usable_bytes=1024 * GIB)
_QUANTITIES = {
    "max_memory_allocated": "allocated",
    "active_bytes_peak": "allocated",
    "max_memory_reserved": "reserved",
}
_DEVICE_QUANTITIES = frozenset({"nvidia-smi", "nvml"})
_TRACED = "traced"
"""No family's name: what a trace says of a replay stands for families that no GPU recorded."""
SHOWN_LEVELS = (0.5, 0.8, 0.9)
K = TypeVar("K")
V = TypeVar("V")


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
        *(_of_device(score) for score in published if _sets_width(score)),
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
            kind=_get_reserved_kind(score.kind, score.family, requested.answer, reserved.answer),
            quantity="reserved",
            group=group,
            model=model,
            low=reserved.ratio,
            high=reserved.ratio,
        )


def _get_reserved_kind(kind: str, family: str, allocated_bytes: int, reserved_bytes: int) -> str:
    if kind not in WHOLE_KINDS:
        return kind
    return select_replay_class(family, allocated_bytes, reserved_bytes)


def _sets_width(score: PublishedScore) -> bool:
    """Return whether a whole GPU's reading is among the residuals of reserved bytes: training, of
    which ranks have streams.
    """
    return score.quantity in _DEVICE_QUANTITIES and score.scores_as == "training"


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
    return f"published, {score.kind}" if score.kind in WHOLE_KINDS else score.kind


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
            kind = _get_reserved_kind(
                found.interval_kind, _TRACED, found.allocated_bytes, found.reserved_bytes
            )
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


def widths_of(
    found: Sequence[Residual], level: float = LEVEL
) -> tuple[dict[str, Width], dict[tuple[str, str], Width]]:
    """Return the widths of each quantity over all kinds, and those of each kind.

    A kind with too few groups for the level is at least as wide as all kinds together, and holds
    what its own have shown.
    """
    pooled = {
        quantity: width(group, level)
        for quantity, group in _grouped(found, lambda each: each.quantity).items()
    }
    kinds = _grouped(found, lambda each: (each.kind, each.quantity))
    return pooled, {key: _of_kind(group, pooled[key[1]], level) for key, group in kinds.items()}


def _of_kind(group: Sequence[Residual], all_: Width, level: float) -> Width:
    own, seen = width(group, level), width(group, 1.0)
    if own.num_groups >= MIN_GROUPS and level <= carried(own.num_groups):
        return own
    return Width(
        low=min(all_.low, seen.low), high=max(all_.high, seen.high), num_groups=own.num_groups
    )


def report(found: Sequence[Residual]) -> str:
    """Return, by kind and quantity, the widths of all groups, and what widths that a group did not
    set cover of it.
    """
    pooled, kinds = widths_of(found)
    held = [pair for fold in range(NUM_FOLDS) for pair in _held(found, fold)]
    lines = [
        (
            f"{'kind':12} {'quantity':10} {'low':>8} {'high':>8} {'width':>8} {'groups':>7} "
            f"{'coverage':>9} {'binomial 95 %':>16}"
        )
    ]
    for (kind, quantity), pairs in sorted(
        _grouped(held, lambda pair: (pair[0].kind, pair[0].quantity)).items()
    ):
        lines.append(_line(kind, quantity, kinds.get((kind, quantity), pooled[quantity]), pairs))
    for quantity, pairs in sorted(_grouped(held, lambda pair: pair[0].quantity).items()):
        lines.append(_line("all", quantity, pooled[quantity], pairs))
    return "\n".join(lines) + "\n"


def other_levels(found: Sequence[Residual]) -> str:
    """Return what the widths of other levels cover of groups that did not set them."""
    lines = []
    for level in SHOWN_LEVELS:
        held = [pair for fold in range(NUM_FOLDS) for pair in _held(found, fold, level)]
        for quantity, pairs in sorted(_grouped(held, lambda pair: pair[0].quantity).items()):
            share, groups = coverage((residual.group, inside) for residual, inside in pairs)
            lines.append(
                f"level {level:.2f}  {quantity:10} {groups:4} groups, coverage {share:.3f}\n"
            )
    return "".join(lines)


def _held(
    found: Sequence[Residual], fold: int, level: float = LEVEL
) -> Iterator[tuple[Residual, bool]]:
    """Yield the residuals of one fold, and whether the widths that the other folds set hold
    them.
    """
    pooled, kinds = widths_of(
        [each for each in found if fold_of(each.model or each.group) != fold], level
    )
    for each in found:
        if fold_of(each.model or each.group) == fold and each.quantity in pooled:
            yield each, holds(kinds.get((each.kind, each.quantity), pooled[each.quantity]), each)


def devices(published: Sequence[PublishedScore]) -> str:
    """Return what the intervals of device bytes cover of readings that set no width; contexts are
    those of other sources.
    """
    apart = [
        score
        for score in published
        if score.quantity in _DEVICE_QUANTITIES and not _sets_width(score)
    ]
    held = _grouped(apart, lambda score: score.group)
    shares = [sum(score.covered is True for score in group) / len(group) for group in held.values()]
    if not shares:
        return "no published reading of device bytes that set no width has an answer\n"
    low, high = binomial_range(len(shares))
    share = sum(shares) / len(shares)
    return (
        f"device bytes: {len(shares)} groups that set no width, coverage {share:.3f}, binomial 95 "
        f"% {low:.3f} to {high:.3f}\n"
    )


def _line(kind: str, quantity: str, each: Width, pairs: Sequence[tuple[Residual, bool]]) -> str:
    share, groups = coverage((residual.group, inside) for residual, inside in pairs)
    low, high = binomial_range(groups)
    limits = f"{each.low:8.4f} {each.high:8.4f} {each.high - each.low:8.4f}"
    return (
        f"{kind:12} {quantity:10} {limits} {groups:7} {share:9.3f} {f'{low:.3f} to {high:.3f}':>16}"
    )


def _grouped(found: Sequence[V], key: Callable[[V], K]) -> dict[K, list[V]]:
    grouped: dict[K, list[V]] = {}
    for each in found:
        grouped.setdefault(key(each), []).append(each)
    return grouped


def main() -> None:
    """Print the report; with ``--write`` write the tables as well."""
    published = score_published(published_cases()).scores
    found = residuals(published)
    if "--write" in sys.argv[1:]:
        table = table_of(found, partial(widths_of, found))
        for name, source in sources_of(table).items():
            (TABLES / f"{name}.py").write_text(source)
    sys.stdout.write(report(found) + other_levels(found) + devices(published))


if __name__ == "__main__":
    main()
