"""``python -m tests.accuracy.intervals [--write]``: sets widths of intervals from residuals, and measures what they cover."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from service.estimator.architecture import Architecture
from service.estimator.device import Device
from service.estimator.errors import EstimatorError
from service.estimator.estimate import PlanCache, estimate
from service.estimator.intervals import PER_MILLION, width_of
from service.estimator.result import Detail, Estimate, Interval
from service.estimator.units import GIB
from service.estimator.workload import Allocator, TrainWorkload
from tests.accuracy.cases import StepCase, architecture_of, rank_cases, training_cases
from tests.accuracy.conformal import MIN_GROUPS, Residual, Width, binomial_range, coverage, sets_widths, width
from tests.accuracy.contract import NotInContractError, Question, question_of_rank, question_of_step
from tests.accuracy.published.rows import published_cases
from tests.accuracy.published.scoring import PublishedScore, score_published

TABLE = Path(__file__).resolve().parents[2] / "service" / "estimator" / "interval_table.py"
_DEVICE = Device(name="any", capacity_bytes=1024 * GIB, usable_bytes=1024 * GIB)
_QUANTITIES = {"max_memory_allocated": "allocated", "active_bytes_peak": "allocated", "max_memory_reserved": "reserved"}
_DEVICE_QUANTITIES = frozenset({"nvidia-smi", "nvml"})
K = TypeVar("K")


def residuals() -> list[Residual]:
    """Return the residuals of all traced and published readings of allocated and reserved bytes."""
    plans = PlanCache()
    traced = [*_traced(training_cases(), question_of_step, plans), *_traced(rank_cases(), question_of_rank, plans)]
    return [*traced, *map(_published, _scores())]


def _traced(cases: Sequence[StepCase], question_of: Callable[[StepCase], Question], plans: PlanCache) -> Iterator[Residual]:
    for case in cases:
        try:
            model, question = architecture_of(case), question_of(case)
            workload = question.workload
            assert isinstance(workload, TrainWorkload), "only training was traced with an allocator"
            growing = replace(question, workload=replace(workload, allocator=Allocator.EXPANDABLE_SEGMENTS))
            answer, expandable = _answer(model, question, plans), _answer(model, growing, plans)
        except (EstimatorError, NotInContractError):
            continue
        group = f"traced/{case.model}"
        yield _allocated(
            answer.interval_kind, group, (case.allocated_bytes,) * 2, answer.allocated_bytes, answer.allocated_interval
        )
        for found, reserved in ((answer, case.reserved_bytes), (expandable, case.reserved_expandable_bytes)):
            ratio = reserved / found.reserved_bytes
            yield Residual(kind=found.interval_kind, quantity="reserved", group=group, low=ratio, high=ratio)


def _answer(model: Architecture, question: Question, plans: PlanCache) -> Estimate:
    return estimate(model, question.workload, layout=question.layout, device=_DEVICE, plans=plans, detail=Detail.REPLAYED)


def _allocated(kind: str, group: str, reading: tuple[float, float], point: float, interval: Interval) -> Residual:
    """Return a residual beside everything between the tensors and the allocator's blocks, which the interval is put around."""
    blocks = interval.high * PER_MILLION / width_of(kind, "allocated")[1]
    return Residual(kind=kind, quantity="allocated", group=group, low=reading[0] / max(blocks, point), high=reading[1] / point)


def _scores() -> list[PublishedScore]:
    found = score_published(published_cases()).scores
    return [score for score in found if score.quantity in _QUANTITIES and not score.absolute and score.interval is not None]


def _published(score: PublishedScore) -> Residual:
    if _QUANTITIES[score.quantity] == "allocated" and score.interval is not None:
        return _allocated(score.kind, score.group, (score.low, score.high), score.predicted, score.interval)
    return Residual(
        kind=score.kind,
        quantity=_QUANTITIES[score.quantity],
        group=score.group,
        low=score.low / score.predicted,
        high=score.high / score.predicted,
    )


def by_kind(found: Sequence[Residual]) -> dict[tuple[str, str], list[Residual]]:
    """Return the residuals of each kind and quantity."""
    return _grouped(found, lambda residual: (residual.kind, residual.quantity))


def widths_of(found: Sequence[Residual]) -> tuple[dict[str, Width], dict[tuple[str, str], Width]]:
    """Return the widths of each quantity over all kinds, and of the kinds that have enough groups of their own."""
    pooled = {quantity: width(group) for quantity, group in _grouped(found, lambda residual: residual.quantity).items()}
    kinds = {key: width(group) for key, group in by_kind(found).items()}
    return pooled, {key: each for key, each in kinds.items() if each.num_groups >= MIN_GROUPS}


def table(found: Sequence[Residual]) -> str:
    """Return the source of ``service/estimator/interval_table.py``, set by one half of the groups."""
    pooled, kinds = widths_of([residual for residual in found if sets_widths(residual.group)])
    groups = len({residual.group for residual in found if sets_widths(residual.group)})
    lines = [
        '"""Generated by ``python -m tests.accuracy.intervals --write``: widths of 0.95 intervals, in parts per million.',
        "",
        f"They are residuals of {groups} groups of traced and published readings; as many others measure what they cover.",
        '"""',
        "",
        "from collections.abc import Mapping",
        "from types import MappingProxyType",
        "",
        "POOLED: Mapping[str, tuple[int, int]] = MappingProxyType(",
        "    {",
        *(f'        "{quantity}": {_parts(each)},' for quantity, each in sorted(pooled.items())),
        "    }",
        ")",
        '"""Of all kinds of answers together."""',
        "WIDTHS: Mapping[tuple[str, str], tuple[int, int]] = MappingProxyType(",
        "    {",
        *(
            f'        ("{kind}", "{name}"): {_parts(each)},  # {each.num_groups} groups'
            for (kind, name), each in sorted(kinds.items())
        ),
        "    }",
        ")",
        '"""By kind of answer and quantity, where a kind has enough groups of its own."""',
        "",
    ]
    return "\n".join(lines)


def report(found: Sequence[Residual]) -> str:
    """Return, by kind and quantity, the widths that one half of the groups sets and what they cover of the other half."""
    halves = ([each for each in found if sets_widths(each.group)], [each for each in found if not sets_widths(each.group)])
    pooled, kinds = widths_of(halves[0])
    lines = [
        f"{'kind':12} {'quantity':10} {'low':>8} {'high':>8} {'width':>8} {'groups':>7} {'coverage':>9} {'binomial 95 %':>16}"
    ]
    for (kind, quantity), others in sorted(by_kind(halves[1]).items()):
        lines.append(_line(kind, quantity, kinds.get((kind, quantity), pooled[quantity]), others))
    for quantity, others in sorted(_grouped(halves[1], lambda residual: residual.quantity).items()):
        lines.append(_line("all", quantity, pooled[quantity], others))
    return "\n".join(lines) + "\n"


def _line(kind: str, quantity: str, each: Width, others: Sequence[Residual]) -> str:
    share, groups = coverage(others, each)
    low, high = binomial_range(groups)
    limits = f"{each.low:8.4f} {each.high:8.4f} {each.high - each.low:8.4f}"
    return f"{kind:12} {quantity:10} {limits} {groups:7} {share:9.3f} {f'{low:.3f} to {high:.3f}':>16}"


def _parts(each: Width) -> str:
    return f"({int(each.low * PER_MILLION):_}, {-int(-each.high * PER_MILLION // 1):_})"


def _grouped(found: Sequence[Residual], key: Callable[[Residual], K]) -> dict[K, list[Residual]]:
    grouped: dict[K, list[Residual]] = {}
    for residual in found:
        grouped.setdefault(key(residual), []).append(residual)
    return grouped


def main() -> None:
    """Print the report; with ``--write`` write the table as well."""
    found = residuals()
    if "--write" in sys.argv[1:]:
        TABLE.write_text(table(found))
    sys.stdout.write(report(found))


if __name__ == "__main__":
    main()
