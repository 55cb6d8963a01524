"""Rules of thumb and this estimator on the same published readings: what a user would otherwise do, scored."""

import statistics
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from rich.table import Table

from service.estimator.estimate import PlanCache
from service.estimator.values.errors import EstimatorError
from service.estimator.values.result import Estimate
from service.estimator.values.workload import TrainWorkload
from service.planner.fit.evaluator import Subject, make_subject
from service.planner.fit.rules_of_thumb import rules_of_thumb
from service.usecases.questions.fit import FitQuestion
from tests.accuracy.published.asking import question_of
from tests.accuracy.published.rows import PublishedCase, Reading, published_cases

OURS = "Headroom"
_PEAKS = {
    "max_memory_allocated": "allocated_bytes",
    "max_memory_reserved": "reserved_bytes",
    "nvidia-smi": "device_bytes",
    "nvml": "device_bytes",
}
"""Readings of a whole GPU at its peak, and the figure of ours that means the same."""
ADAM_BYTES = 16
"""``accelerate estimate-memory`` says four times the fp32 weights for training with Adam (accelerate, commands/estimate.py)."""
ZERO_BYTES = 18
"""Bytes per parameter over all ranks in DeepSpeed's estimators (runtime/zero/stage3.py, stage_1_and_2.py)."""
GATHERED_BYTES = 4
"""Of the largest layer's parameters in DeepSpeed's estimator for stage 3."""
FULLY, HALF = 3, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """How far one rule is from one reading: the distance to the nearer end of its print, signed, over the reading."""

    rule: str
    group: str
    relative: float
    ours: float
    """Our own on the same reading."""


def rules() -> Table:
    """Return the errors of every rule over the published readings that it speaks of, each group with the same weight."""
    heads = ("rule", "readings", "groups", "median error", "p90", "says too little", "Headroom's median there")
    table = Table(*heads, title="Published readings of a GPU at its peak")
    by_rule: dict[str, list[Error]] = defaultdict(list)
    for error in _errors():
        by_rule[error.rule].append(error)
    for rule, errors in sorted(by_rule.items(), key=lambda pair: (pair[0] != OURS, -len(pair[1]))):
        table.add_row(rule, *_scored(errors))
    return table


def _scored(errors: list[Error]) -> tuple[str, ...]:
    groups, ours = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    for error in errors:
        groups[error.group].append(error.relative)
        ours[error.group].append(error.ours)
    sizes = sorted(statistics.median(abs(one) for one in group) for group in groups.values())
    under = statistics.mean(statistics.mean(one < 0 for one in group) for group in groups.values())
    p90 = sizes[min(len(sizes) * 9 // 10, len(sizes) - 1)]
    there = statistics.median(statistics.median(abs(one) for one in group) for group in ours.values())
    counts = str(len(errors)), str(len(groups))
    return *counts, f"{statistics.median(sizes):.1%}", f"{p90:.1%}", f"{under:.0%}", f"{there:.1%}"


def _errors() -> Iterator[Error]:
    plans = PlanCache()
    for case in published_cases():
        readings = [reading for reading in case.readings if reading.quantity in _PEAKS]
        if case.outcome != "ok" or case.absolute or not readings:
            continue
        with suppress(EstimatorError):
            yield from _of_case(case, readings, plans)


def _of_case(case: PublishedCase, readings: list[Reading], plans: PlanCache) -> Iterator[Error]:
    asked = question_of(case)
    subject = make_subject(asked.architecture, asked.device, plans=plans)
    estimate = subject.answer(asked.workload, asked.layout)
    said = [(rule.name, rule.bytes) for rule in rules_of_thumb(subject, asked.workload, asked.layout, estimate)]
    said += _of_tools(subject, asked, estimate)
    for reading in readings:
        ours = getattr(estimate, _PEAKS[reading.quantity])
        # A formula of activations alone is not a rule about a GPU.
        for name, says in ((OURS, ours), *((name, says) for name, says in said if "per layer" not in name)):
            distance = _distance(says, reading)
            yield Error(rule=name, group=case.group, relative=distance, ours=_distance(ours, reading))


def _of_tools(subject: Subject, asked: FitQuestion, estimate: Estimate) -> Iterator[tuple[str, int]]:
    """Yield what two tools' estimators say; neither knows batch, sequence or activations."""
    workload, layout = asked.workload, asked.layout
    if not isinstance(workload, TrainWorkload) or workload.lora is not None:
        return
    counts = subject.architecture.parameter_counts()
    if estimate.num_gpus == 1:
        yield "accelerate estimate-memory, one GPU", ADAM_BYTES * counts.total
    if layout.zero_stage >= FULLY:
        says = GATHERED_BYTES * counts.largest_block + ZERO_BYTES * counts.total // estimate.num_gpus
        yield "DeepSpeed's estimator, ZeRO-3", says
    elif layout.zero_stage:
        yield "DeepSpeed's estimator, ZeRO-2", HALF * counts.total + ZERO_BYTES * counts.total // estimate.num_gpus


def _distance(says: float, reading: Reading) -> float:
    nearest = min(max(says, reading.low), reading.high)
    return (says - nearest) / nearest
