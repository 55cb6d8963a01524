"""Explanation beside the prediction for what is said to have run; pure.

A log tells a point in time: what was allocated and what was requested on top, which the run needed
at least. It contradicts a prediction only where that is more than the prediction's upper end.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from service.estimator.cache import PlanCache
from service.estimator.values.device import Device
from service.estimator.values.result import Estimate
from service.estimator.values.units import format_bytes
from service.formats.failures.failure import FailedMemory, FailureQuantity, Span, find_span
from service.planner.fit.fit import FitReport
from service.planner.fit.parts import FitPart
from service.planner.fit.verdict import Verdict
from service.usecases.postmortem.balance import Balance
from service.usecases.postmortem.changes import ASK_QUESTION
from service.usecases.postmortem.explain import explain_log
from service.usecases.postmortem.tensors import (
    TensorMatch,
    find_place_by_size,
    name_tensors,
)
from service.usecases.postmortem.values import Cause, CauseCertainty, CauseName, Explanation
from service.usecases.questions.fit import FindCorrections, FitQuestion
from service.usecases.questions.remedies import answer_fit

_SAME_SHARE = 0.01
"""Difference of two readings of one GPU's memory: a driver's reserve, ECC, rounding."""

_COMPARED = frozenset({FitPart.COMPONENTS, FitPart.INSTANTS})


class Agreement(StrEnum):
    """Side of the predicted interval on which a read number lies."""

    INSIDE = "inside"
    ABOVE = "above"
    BELOW = "below"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A predicted quantity beside what was read.

    ``is_lower_bound`` says that the run needed at least what was read: it failed before its peak.
    """

    quantity: str
    predicted: int
    low: int
    high: int
    span: Span
    is_lower_bound: bool

    @property
    def agreement(self) -> Agreement:
        """Side on which the read number lies, by its digits."""
        if self.span.low > self.high:
            return Agreement.ABOVE
        return Agreement.BELOW if self.span.high < self.low else Agreement.INSIDE


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Fit of the question on the memory that was there, with comparisons."""

    report: FitReport
    question: FitQuestion
    comparisons: tuple[Comparison, ...]
    available_bytes: int | None
    tensors: tuple[TensorMatch, ...]
    notes: tuple[str, ...]


def predict(
    explanation: Explanation,
    question: FitQuestion,
    *,
    plans: PlanCache,
    find_corrections: FindCorrections | None = None,
) -> tuple[Explanation, Prediction]:
    """Return the explanation with what the question adds, and the prediction.

    The GPU is the question's, with the memory that was really there. Raises EstimatorError for
    what cannot run or has no term.
    """
    requested = explanation.balance.requested
    tensors = () if requested is None else name_tensors(question, requested)
    if explanation.place is None:
        explanation = explain_log(explanation.log, place=find_place_by_size(tensors))
    available = explanation.balance.available
    device = _restrict(question.device, available)
    restricted = replace(question, device=device)
    # Weights and instants are compared, whatever of them is to be shown.
    compared = replace(restricted, parts=restricted.parts | _COMPARED)
    report = answer_fit(compared, plans=plans, find_corrections=find_corrections)
    prediction = Prediction(
        report=report,
        question=restricted,
        comparisons=tuple(_iter_comparisons(explanation, report.estimate)),
        available_bytes=None if device is question.device else device.usable_bytes,
        tensors=tensors,
        notes=tuple(_iter_notes(explanation, report, question.device)),
    )
    return _add_question(explanation, question.device), prediction


def _restrict(device: Device, available: Span | None) -> Device:
    """Return the GPU with the memory that a failure shows."""
    if available is None or available.value <= 0:
        return device
    usable = int(available.value)
    if abs(usable - device.usable_bytes) <= _SAME_SHARE * device.usable_bytes:
        return device
    return replace(device, usable_bytes=usable, capacity_bytes=max(usable, device.capacity_bytes))


def _add_question(explanation: Explanation, device: Device) -> Explanation:
    changes = tuple(change for change in explanation.changes if change.action != ASK_QUESTION)
    explanation = replace(explanation, changes=changes)
    total = explanation.balance.total
    if total is None or total.high >= (1 - _SAME_SHARE) * device.usable_bytes:
        return explanation
    why = (
        f"the GPU has {format_bytes(total.value)}, and {device.name} of the question has "
        f"{format_bytes(device.usable_bytes)}"
    )
    cause = Cause(name=CauseName.SMALLER_GPU, certainty=CauseCertainty.CERTAIN, why=why)
    return replace(explanation, causes=(cause, *explanation.causes))


def _iter_comparisons(explanation: Explanation, estimate: Estimate) -> Iterator[Comparison]:
    if explanation.failure.memory is FailedMemory.HOST:
        yield from _compare_host(explanation, estimate)
        return
    yield from _compare_allocator(explanation.balance, estimate)
    yield from _compare_engine(explanation, estimate)


def _compare_allocator(balance: Balance, estimate: Estimate) -> Iterator[Comparison]:
    """Yield the three quantities, each with what was requested on top."""
    requested = balance.requested
    if requested is None:
        return
    for quantity, span, predicted, interval in (
        (
            "allocated_bytes",
            balance.allocated,
            estimate.allocated_bytes,
            estimate.allocated_interval,
        ),
        ("reserved_bytes", balance.reserved, estimate.reserved_bytes, estimate.reserved_interval),
        ("device_bytes", balance.process, estimate.device_bytes, estimate.device_interval),
    ):
        if span is not None:
            yield Comparison(
                quantity=quantity,
                predicted=predicted,
                low=interval.low,
                high=interval.high,
                span=span + requested,
                is_lower_bound=True,
            )


def _compare_engine(explanation: Explanation, estimate: Estimate) -> Iterator[Comparison]:
    """Yield what an engine prints of its parts."""
    amounts = (*explanation.log.context, *explanation.failure.amounts)
    predicted = {part.name: part.bytes for part in estimate.components}
    serving = estimate.serving
    numbers: dict[FailureQuantity, int | None] = {FailureQuantity.WEIGHTS: predicted.get("weights")}
    if serving is not None:
        length = find_span(amounts, FailureQuantity.MAX_MODEL_LEN)
        numbers |= {
            FailureQuantity.KV_POOL: serving.kv_pool_bytes,
            FailureQuantity.KV_POOL_TOKENS: serving.kv_pool_tokens,
            FailureQuantity.KV_NEEDED: None
            if length is None
            else serving.kv_bytes_per_token * int(length.value),
        }
    for quantity, number in numbers.items():
        span = find_span(amounts, quantity)
        if span is not None and number is not None and span.value >= 0:
            yield Comparison(
                quantity=quantity.value,
                predicted=number,
                low=number,
                high=number,
                span=span,
                is_lower_bound=False,
            )


def _compare_host(explanation: Explanation, estimate: Estimate) -> Iterator[Comparison]:
    resident = explanation.failure.get(FailureQuantity.HOST_RESIDENT)
    if resident is not None and estimate.host_bytes_per_node:
        predicted = estimate.host_bytes_per_node
        yield Comparison(
            quantity="host_bytes_per_node",
            predicted=predicted,
            low=predicted,
            high=predicted,
            span=resident,
            is_lower_bound=True,
        )


def _iter_notes(explanation: Explanation, report: FitReport, device: Device) -> Iterator[str]:
    instant = None if explanation.place is None else explanation.place.instant
    estimate = report.estimate
    predicted = {entry.name: entry.allocated_bytes for entry in estimate.instants}
    if instant is not None and predicted and instant not in predicted:
        yield (
            f"the log failed at {instant}, which the question has not (it has "
            f"{', '.join(predicted)}): is it what ran?"
        )
    elif instant in predicted and instant != estimate.peak_instant:
        yield (
            f"it failed at {instant}, where {format_bytes(predicted[instant])} are predicted to "
            f"be allocated; the highest instant is {estimate.peak_instant}"
        )
    memory = explanation.failure.memory
    if memory is FailedMemory.GPU and report.verdict is not Verdict.DOES_NOT_FIT:
        yield (
            f"the question {'is tight' if report.verdict is Verdict.TIGHT else 'fits'} on what "
            "this GPU had: what ran was another question, or the causes above took the rest"
        )
    total = explanation.balance.total
    if total is not None and total.low > (1 + _SAME_SHARE) * device.usable_bytes:
        yield (
            f"the GPU has {format_bytes(total.value)}, more than {device.name} of the question "
            f"({format_bytes(device.usable_bytes)})"
        )
