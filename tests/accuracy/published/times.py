"""Sets predicted times beside published rates; every figure becomes seconds: of a step, or of a
whole generation.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from service.catalog.gpus import resolve_gpu
from service.estimator.cache import PlanCache
from service.estimator.estimate import estimate
from service.estimator.speed.throughput import estimate_throughput
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Throughput
from service.estimator.values.workload import ServeWorkload, TrainWorkload
from service.usecases.questions.fit import FitQuestion
from tests.accuracy.published.asking import question_of
from tests.accuracy.published.rows import PublishedCase

_STEP = (
    "seconds_per_step",
    "seconds_per_iteration",
    "iteration_time_s",
    "iteration_time_s_median_second_half",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeScore:
    """One published time and its prediction, in seconds."""

    case: str
    family: str
    group: str
    predicted: float
    published: float

    @property
    def error(self) -> float:
        """Predicted over published, less one."""
        return self.predicted / self.published - 1


def score_times(cases: Sequence[PublishedCase]) -> tuple[list[TimeScore], Counter[str]]:
    """Return the scores of all cases that state a rate, and the reasons of those without an
    answer.
    """
    plans, scores, refusals = PlanCache(), list[TimeScore](), Counter[str]()
    for case in cases:
        if not case.throughput or case.outcome != "ok" or case.absolute:
            continue
        try:
            question = _timed(question_of(case), case)
            found = _throughput(question, plans)
        except (EstimatorError, msgspec.ValidationError) as error:
            refusals[str(error)] += 1
            continue
        stated = {
            name: value for name, value in case.throughput.items() if isinstance(value, int | float)
        }
        pair = _seconds(question, found, stated) if found is not None else None
        if pair is not None:
            predicted, published = pair
            family = case.group.partition("|")[0]
            scores.append(
                TimeScore(
                    case=case.id,
                    family=family,
                    group=case.group,
                    predicted=predicted,
                    published=published,
                ),
            )
    return scores, refusals


def _timed(question: FitQuestion, case: PublishedCase) -> FitQuestion:
    """Return the question on the GPU whose rates are known."""
    if case.timed_on is None or isinstance(case.gpu, str):
        return question
    return replace(question, device=resolve_gpu(case.timed_on).to_device())


def _throughput(question: FitQuestion, plans: PlanCache) -> Throughput | None:
    model, workload, layout, device = (
        question.architecture,
        question.workload,
        question.layout,
        question.device,
    )
    answer = estimate(model, workload, layout=layout, device=device, plans=plans)
    return estimate_throughput(model, workload, layout, device, answer, plans.works)


def _seconds(
    question: FitQuestion, found: Throughput, stated: Mapping[str, Any]
) -> tuple[float, float] | None:
    if isinstance(question.workload, TrainWorkload):
        published = _step_seconds(question.workload, question.layout, stated)
        return None if published is None else (found.step_time_s, published)
    if found.prefill_time_s is None or not question.workload.output_tokens:
        return None
    published = _decode_seconds(question.workload, stated)
    if published is not None:
        return found.step_time_s, published
    if "tokens_per_second" not in stated:
        return None
    tokens = question.workload.output_tokens
    generated = question.workload.num_sequences * tokens
    return found.prefill_time_s + tokens * found.step_time_s, generated / stated[
        "tokens_per_second"
    ]


def _step_seconds(
    workload: TrainWorkload, layout: Layout, stated: Mapping[str, Any]
) -> float | None:
    said = next((float(stated[name]) for name in _STEP if name in stated), None)
    if said is not None:
        return said
    steps = workload.gradient_accumulation_steps
    tokens = workload.micro_batch_size * workload.sequence_length * steps * layout.data_parallel
    if "tokens_per_second_per_gpu" in stated:
        return tokens / layout.num_gpus / float(stated["tokens_per_second_per_gpu"])
    return tokens / float(stated["tokens_per_second"]) if "tokens_per_second" in stated else None


def _decode_seconds(workload: ServeWorkload, stated: Mapping[str, Any]) -> float | None:
    if "decode_tokens_per_second" in stated:
        return workload.num_sequences / float(stated["decode_tokens_per_second"])
    return (
        float(stated["per_token_latency_ms"]) / 1000 if "per_token_latency_ms" in stated else None
    )
