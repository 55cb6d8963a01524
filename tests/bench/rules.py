"""Errors of rules of thumb and of this estimator, on published readings.

Both are scored on the same readings: the rules are what a user would otherwise use.
"""

import statistics
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from rich.table import Table

from service.estimator.cache import PlanCache
from service.estimator.values.errors import EstimatorError
from service.estimator.values.result import Estimate
from service.estimator.values.workload import TrainWorkload
from service.planner.fit.evaluator import Evaluator, make_evaluator
from service.planner.fit.rules_of_thumb import list_rules_of_thumb
from service.usecases.questions.fit import FitQuestion
from tests.accuracy.published.asking import question_of
from tests.accuracy.published.rows import PublishedCase, Reading, published_cases

HEADROOM = "Headroom"
_PEAKS = {
    "max_memory_allocated": "allocated_bytes",
    "max_memory_reserved": "reserved_bytes",
    "nvidia-smi": "device_bytes",
    "nvml": "device_bytes",
}
"""Readings of a full GPU at its peak, and the estimate's field of the same meaning."""
ADAM_BYTES = 16
"""Bytes per parameter of ``accelerate estimate-memory`` for training with Adam.

They are four times the fp32 weights (accelerate, commands/estimate.py).
"""
ZERO_BYTES = 18
"""Bytes per parameter over all ranks in DeepSpeed's estimators.

(runtime/zero/stage3.py, stage_1_and_2.py.)
"""
GATHERED_BYTES = 4
"""Of the largest layer's parameters in DeepSpeed's estimator for stage 3."""
FULLY, HALF = 3, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleError:
    """Relative error of one rule on one reading.

    It is the distance to the nearer end of the printed range, signed, over the reading.
    """

    rule: str
    group: str
    relative: float
    headroom_relative: float
    """Headroom's own relative error on the same reading."""


def score_rules() -> Table:
    """Score every rule on the published readings that it applies to.

    Each group of readings has the same weight.
    """
    heads = (
        "rule",
        "readings",
        "groups",
        "median error",
        "p90",
        "says too little",
        "Headroom's median there",
    )
    table = Table(*heads, title="Published readings of a GPU at its peak")
    by_rule: dict[str, list[RuleError]] = defaultdict(list)
    for error in _iter_errors():
        by_rule[error.rule].append(error)
    for rule, errors in sorted(
        by_rule.items(), key=lambda pair: (pair[0] != HEADROOM, -len(pair[1]))
    ):
        table.add_row(rule, *_score(errors))
    return table


def _score(errors: list[RuleError]) -> tuple[str, ...]:
    groups, headroom_groups = (
        defaultdict[str, list[float]](list),
        defaultdict[str, list[float]](list),
    )
    for error in errors:
        groups[error.group].append(error.relative)
        headroom_groups[error.group].append(error.headroom_relative)
    sizes = sorted(statistics.median(abs(value) for value in group) for group in groups.values())
    under = statistics.mean(
        statistics.mean(value < 0 for value in group) for group in groups.values()
    )
    p90 = sizes[min(len(sizes) * 9 // 10, len(sizes) - 1)]
    headroom_median = statistics.median(
        statistics.median(abs(value) for value in group) for group in headroom_groups.values()
    )
    counts = str(len(errors)), str(len(groups))
    return (
        *counts,
        f"{statistics.median(sizes):.1%}",
        f"{p90:.1%}",
        f"{under:.0%}",
        f"{headroom_median:.1%}",
    )


def _iter_errors() -> Iterator[RuleError]:
    plans = PlanCache()
    for case in published_cases():
        readings = [reading for reading in case.readings if reading.quantity in _PEAKS]
        if case.outcome != "ok" or case.absolute or not readings:
            continue
        with suppress(EstimatorError):
            yield from _iter_case_errors(case, readings, plans)


def _iter_case_errors(
    case: PublishedCase, readings: list[Reading], plans: PlanCache
) -> Iterator[RuleError]:
    question = question_of(case)
    subject = make_evaluator(question.architecture, question.device, plans=plans)
    estimate = subject.answer(question.workload, question.layout)
    predictions = [
        (rule.name, rule.bytes)
        for rule in list_rules_of_thumb(subject, question.workload, question.layout, estimate)
        # What an article says of activations, gradients, disk or time is not about a GPU, and its
        # line of ZeRO's figure is 16 bytes per parameter once more.
        if rule.bytes is not None
        and rule.our_bytes == estimate.device_bytes
        and not rule.name.startswith("ZeRO-")
    ]
    predictions += _iter_tool_estimates(subject, question, estimate)
    for reading in readings:
        headroom_bytes = getattr(estimate, _PEAKS[reading.quantity])
        for name, predicted in ((HEADROOM, headroom_bytes), *predictions):
            distance = _compute_distance(predicted, reading)
            yield RuleError(
                rule=name,
                group=case.group,
                relative=distance,
                headroom_relative=_compute_distance(headroom_bytes, reading),
            )


def _iter_tool_estimates(
    subject: Evaluator, question: FitQuestion, estimate: Estimate
) -> Iterator[tuple[str, int]]:
    """Yield the estimates of two tools.

    Neither knows batch, sequence or activations.
    """
    workload, layout = question.workload, question.layout
    if not isinstance(workload, TrainWorkload) or workload.lora is not None:
        return
    counts = subject.architecture.parameter_counts()
    if estimate.num_gpus == 1:
        yield "accelerate estimate-memory, one GPU", ADAM_BYTES * counts.total
    if layout.zero_stage >= FULLY:
        predicted = (
            GATHERED_BYTES * counts.largest_block + ZERO_BYTES * counts.total // estimate.num_gpus
        )
        yield "DeepSpeed's estimator, ZeRO-3", predicted
    elif layout.zero_stage:
        yield (
            "DeepSpeed's estimator, ZeRO-2",
            HALF * counts.total + ZERO_BYTES * counts.total // estimate.num_gpus,
        )


def _compute_distance(predicted: float, reading: Reading) -> float:
    nearest = min(max(predicted, reading.low), reading.high)
    return (predicted - nearest) / nearest
