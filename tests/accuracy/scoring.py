"""Asks the estimator every traced question and sets its answers beside the traces."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from service.estimator.cache import PlanCache
from service.estimator.estimate import estimate
from service.estimator.model.architecture import Architecture
from service.estimator.values.device import Device
from service.estimator.values.errors import EstimatorError, UnknownModelTypeError
from service.estimator.values.result import Detail, Estimate, Interval
from service.estimator.values.units import GIB
from service.estimator.values.workload import Allocator
from tests.accuracy.cases import (
    ParameterCase,
    ServingCase,
    StepCase,
    architecture_of,
    make_traced_plans,
    parameter_cases,
    rank_cases,
    serving_cases,
    training_cases,
)
from tests.accuracy.contract import (
    NotInContractError,
    Question,
    question_of_rank,
    question_of_serving,
    question_of_step,
)

_DEVICE = Device(name="any", capacity_bytes=1024 * GIB, usable_bytes=1024 * GIB)
"""Only verdicts and serving budgets depend on the device, and neither is scored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One quantity of one case: what was predicted and what was traced."""

    quantity: str
    case: str
    predicted: int
    traced: int
    interval: Interval | None = None
    op: str = ""

    @property
    def difference(self) -> int:
        """Predicted minus traced."""
        return self.predicted - self.traced

    @property
    def error(self) -> float:
        """Predicted over traced, minus one."""
        return self.predicted / self.traced - 1 if self.traced else float(self.predicted != 0)

    @property
    def covered(self) -> bool | None:
        """Whether the traced value lies in the interval; ``None`` where the answer gives none."""
        return (
            None
            if self.interval is None
            else self.interval.low <= self.traced <= self.interval.high
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A case without an answer, and why; ``model_type`` is given when the model itself cannot be
    read.
    """

    kind: str
    case: str
    reason: str
    model_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """All scores and refusals, in the order of the cases."""

    scores: tuple[Score, ...]
    refusals: tuple[Refusal, ...]

    def of(self, quantity: str) -> tuple[Score, ...]:
        """Return the scores of one quantity."""
        return tuple(score for score in self.scores if score.quantity == quantity)


C = TypeVar("C", ParameterCase, StepCase, ServingCase)


def score_everything() -> Scores:
    """Score parameters, training steps, ranks and serving runs."""
    plans = make_traced_plans()
    parts = (
        _score_each("parameters", parameter_cases(), _parameters, plans),
        _score_each("training", training_cases(), _training, plans),
        _score_each("FSDP2 rank", rank_cases(), _rank, plans),
        _score_each("serving", serving_cases(), _serving, plans),
    )
    return Scores(
        scores=tuple(score for part in parts for score in part.scores),
        refusals=tuple(refusal for part in parts for refusal in part.refusals),
    )


def _score_each(
    kind: str, cases: Sequence[C], scorer: Callable[[C, PlanCache], list[Score]], plans: PlanCache
) -> Scores:
    found: list[Score] = []
    refused: list[Refusal] = []
    for case in cases:
        try:
            found += scorer(case, plans)
        except (EstimatorError, NotInContractError) as error:
            refused.append(_refusal(kind, label(case), error))
    return Scores(scores=tuple(found), refusals=tuple(refused))


def label(case: ParameterCase | StepCase | ServingCase) -> str:
    """Return a case in a few words."""
    if isinstance(case, ParameterCase):
        return case.model
    options = " ".join(f"{name}={value}" for name, value in case.options.items())
    return f"{case.id} {case.model} {options}"


def _parameters(case: ParameterCase, _: PlanCache) -> list[Score]:
    counts = architecture_of(case).parameter_counts()
    pairs = [
        ("parameters, total", counts.total, case.total),
        ("parameters, active", counts.active, case.active),
        ("parameter tensors", counts.num_tensors, case.num_tensors),
    ]
    if case.embedding is not None:
        pairs.append(("parameters, embedding", counts.embedding, case.embedding))
    kinds = counts.by_module.keys() | case.by_module.keys()
    pairs += [
        ("parameters, by module", counts.by_module.get(kind, 0), case.by_module.get(kind, 0))
        for kind in sorted(kinds)
    ]
    return [
        Score(quantity=name, case=case.model, predicted=ours, traced=theirs)
        for name, ours, theirs in pairs
    ]


def _training(case: StepCase, plans: PlanCache) -> list[Score]:
    model = architecture_of(case)
    return _step("training", case, _answers(model, question_of_step(case), plans))


def _rank(case: StepCase, plans: PlanCache) -> list[Score]:
    model = architecture_of(case)
    return _step("FSDP2 rank", case, _answers(model, question_of_rank(case), plans))


def _answers(
    model: Architecture, question: Question, plans: PlanCache
) -> tuple[Estimate, Estimate]:
    """Return the answers with segments of fixed size and with expandable ones."""
    growing = replace(
        question, workload=replace(question.workload, allocator=Allocator.EXPANDABLE_SEGMENTS)
    )
    return _ask(model, question, plans), _ask(model, growing, plans)


def _step(kind: str, case: StepCase, answers: tuple[Estimate, Estimate]) -> list[Score]:
    answer, growing = answers
    phases = {phase.name: phase.allocated_bytes for phase in answer.phases}
    traced = case.phases
    peak_op = traced[case.steady_peak_phase].op
    rows: list[tuple[str, int, int, Interval | None, str]] = [
        (
            "peak",
            answer.allocated_bytes,
            case.steady_peak_bytes,
            answer.allocated_interval,
            peak_op,
        ),
        ("forward", phases["forward_pass"], traced["forward"].peak, None, traced["forward"].op),
        ("backward", phases["backward_pass"], traced["backward"].peak, None, traced["backward"].op),
        (
            "optimizer step",
            phases["optimizer_step"],
            traced["optimizer"].peak - case.held_input_bytes,
            None,
            traced["optimizer"].op,
        ),
        (
            "between steps",
            answer.steady_bytes,
            traced["forward"].start - case.held_input_bytes,
            None,
            "",
        ),
        (
            "peak in 512-byte blocks",
            answer.allocated_bytes,
            case.allocated_bytes,
            answer.allocated_interval,
            peak_op,
        ),
        ("reserved", answer.reserved_bytes, case.reserved_bytes, answer.reserved_interval, peak_op),
        (
            "reserved, expandable segments",
            growing.reserved_bytes,
            case.reserved_expandable_bytes,
            growing.reserved_interval,
            peak_op,
        ),
    ]
    return [
        Score(
            quantity=f"{kind}, {name}",
            case=label(case),
            predicted=ours,
            traced=theirs,
            interval=interval,
            op=op,
        )
        for name, ours, theirs, interval, op in rows
    ]


def _serving(case: ServingCase, plans: PlanCache) -> list[Score]:
    model = architecture_of(case)
    answer = _ask(model, question_of_serving(case), plans)
    assert answer.serving is not None, "a serving workload is answered with serving numbers"
    instants = {instant.name: instant.allocated_bytes for instant in answer.instants}
    pairs = (
        ("serving, load", instants["load"], case.load_bytes),
        ("serving, prefill", instants["prefill"], case.prefill_bytes),
        ("serving, decode", instants["decode"], case.decode_bytes),
        ("serving, cache", answer.serving.kv_cache_bytes, case.decode_cache_bytes),
    )
    return [
        Score(quantity=name, case=label(case), predicted=ours, traced=theirs)
        for name, ours, theirs in pairs
    ]


def _ask(model: Architecture, question: Question, plans: PlanCache) -> Estimate:
    return estimate(
        model,
        question.workload,
        layout=question.layout,
        device=_DEVICE,
        plans=plans,
        detail=Detail.REPLAYED,
    )


def _refusal(kind: str, case: str, error: EstimatorError | NotInContractError) -> Refusal:
    model_type = error.model_type if isinstance(error, UnknownModelTypeError) else None
    return Refusal(kind=kind, case=case, reason=str(error), model_type=model_type)
