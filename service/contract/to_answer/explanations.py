"""Explanations of failures as the contract's answer."""

from collections.abc import Iterator

from service.contract.schemas.explain.answer import (
    BalanceAnswer,
    CauseAnswer,
    ComparisonAnswer,
    ExplainAnswer,
    FailureChangeAnswer,
    GrowthAnswer,
    PlaceAnswer,
    PredictionAnswer,
    ProcessAnswer,
    ReadNumberAnswer,
    SpanAnswer,
    TensorAnswer,
)
from service.contract.to_answer.fits import build_fit_answer
from service.estimator.values.units import format_bytes
from service.formats.failures.failure import Amount, FailedMemory, Growth, Span
from service.formats.failures.places import Place
from service.usecases.postmortem.balance import Balance
from service.usecases.postmortem.prediction import Prediction
from service.usecases.postmortem.values import CauseName, Explanation

_MAX_READ = 200
_WHAT = {
    FailedMemory.GPU: "the GPU's memory ran out",
    FailedMemory.HOST: "the host's memory ran out",
    FailedMemory.NONE: "CUDA failed, and no memory was lacking",
}


def build_explain_answer(explanation: Explanation, prediction: Prediction | None) -> ExplainAnswer:
    """Return an explanation as the contract's answer."""
    failure = explanation.failure
    return ExplainAnswer(
        summary=_summarize(explanation),
        memory=failure.memory,
        speaker=failure.speaker,
        release=failure.release or None,
        engine=explanation.engine,
        line=failure.line,
        rank=failure.rank,
        gpu=failure.gpu,
        num_failures=len(explanation.log.failures),
        read=[
            _build_number(amount)
            for amount in (*failure.amounts, *explanation.log.context)[:_MAX_READ]
        ],
        balance=_build_balance(explanation.balance),
        processes=list(_iter_processes(explanation)),
        place=_build_place(explanation.place),
        growth=_build_growth(explanation.log.growth),
        causes=[
            CauseAnswer(name=cause.name, certainty=cause.certainty, why=cause.why)
            for cause in explanation.causes
        ],
        changes=[
            FailureChangeAnswer(
                cause=change.cause,
                action=change.action,
                setting=change.setting,
                frees_bytes=change.frees_bytes,
                fits=change.fits,
            )
            for change in explanation.changes
        ],
        prediction=_build_prediction(prediction),
        notes=list(explanation.log.notes),
    )


def _summarize(explanation: Explanation) -> str:
    failure, balance = explanation.failure, explanation.balance
    place = "" if explanation.place is None else f" at {explanation.place.what}"
    parts = [f"{_WHAT[failure.memory]}{place}"]
    if explanation.cause.name is CauseName.REFUSED_THOUGH_FREE:
        parts = [f"the driver refused memory of the GPU{place}"]
    if balance.requested is not None:
        parts.append(f"{format_bytes(balance.requested.value)} were requested")
    if balance.free is not None and balance.total is not None:
        free, total = format_bytes(balance.free.value), format_bytes(balance.total.value)
        parts.append(f"{free} of {total} were free")
    return ", ".join(parts)


def _build_number(amount: Amount) -> ReadNumberAnswer:
    return ReadNumberAnswer(
        quantity=amount.quantity,
        value=amount.span.value,
        low=amount.span.low,
        high=amount.span.high,
        text=amount.text,
        line=amount.line,
    )


def _build_span(span: Span) -> SpanAnswer:
    return SpanAnswer(
        bytes=round(span.value), low_bytes=round(span.low), high_bytes=round(span.high)
    )


def _build_span_or_none(span: Span | None) -> SpanAnswer | None:
    return None if span is None else _build_span(span)


def _build_balance(balance: Balance) -> BalanceAnswer:
    return BalanceAnswer(
        requested=_build_span_or_none(balance.requested),
        total=_build_span_or_none(balance.total),
        free=_build_span_or_none(balance.free),
        missing=_build_span_or_none(balance.missing),
        limit=_build_span_or_none(balance.limit),
        allocated=_build_span_or_none(balance.allocated),
        unallocated=_build_span_or_none(balance.unallocated),
        reserved=_build_span_or_none(balance.reserved),
        process=_build_span_or_none(balance.process),
        outside=_build_span_or_none(balance.outside),
        other_processes=_build_span(balance.other_processes),
        strangers=_build_span(balance.strangers),
        available=_build_span_or_none(balance.available),
    )


def _iter_processes(explanation: Explanation) -> Iterator[ProcessAnswer]:
    balance = explanation.balance
    for process in explanation.failure.processes:
        yield ProcessAnswer(
            pid=process.pid,
            memory=_build_span(process.span),
            is_failing=process.pid is None or process.pid == balance.process_pid,
        )


def _build_place(place: Place | None) -> PlaceAnswer | None:
    if place is None:
        return None
    frame = place.frame
    return PlaceAnswer(
        instant=place.instant,
        terms=list(place.terms),
        what=place.what,
        file=None if frame is None else frame.file,
        function=None if frame is None else frame.function,
    )


def _build_growth(growth: Growth | None) -> GrowthAnswer | None:
    if growth is None:
        return None
    return GrowthAnswer(
        num_readings=growth.num_steps,
        first=_build_span(growth.first),
        last=_build_span(growth.last),
        first_line=growth.first_line,
        last_line=growth.last_line,
        bytes_per_step=round(growth.bytes_per_step),
    )


def _build_prediction(prediction: Prediction | None) -> PredictionAnswer | None:
    if prediction is None:
        return None
    question = prediction.question
    return PredictionAnswer(
        fit=build_fit_answer(
            prediction.report,
            assumptions=question.assumptions,
            parts=question.parts,
            cluster=question.cluster,
        ),
        available_bytes=prediction.available_bytes,
        comparisons=[
            ComparisonAnswer(
                quantity=comparison.quantity,
                predicted=comparison.predicted,
                low=comparison.low,
                high=comparison.high,
                value=round(comparison.span.value),
                is_lower_bound=comparison.is_lower_bound,
                agreement=comparison.agreement,
            )
            for comparison in prediction.comparisons
        ],
        tensors=[
            TensorAnswer(
                name=tensor.name, formula=tensor.formula, bytes=tensor.num_bytes, term=tensor.term
            )
            for tensor in prediction.tensors
        ],
        notes=list(prediction.notes),
    )
