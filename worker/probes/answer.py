"""Bytes of the requested model from the runs, and their reliability."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from service.estimator.values.units import format_bytes
from service.probing.plan import Point, ProbePlan, ProbeQuestion
from service.probing.refusal import Refusal
from service.probing.stack import get_layer_stack
from worker.probes.run.extrapolate import (
    ExtrapolatedBytes,
    PointReading,
    compute_instant_peaks,
    extrapolate_layers,
    extrapolate_tokens,
)

ROUNDING_BYTES = 512
"""Residual that is still exact: step counters and roundings of a half.

Lines through exact bytes are exact.
"""
LINEAR_SHARE = 0.001
"""Share of the peak beyond which runs that miss their lines are no evidence."""

Analytic = Callable[[Point], Mapping[str, int]]


def extrapolate_plan(
    plan: ProbePlan, readings: Sequence[PointReading], question: ProbeQuestion, analytic: Analytic
) -> ExtrapolatedBytes:
    """Extrapolate the runs of a plan to the requested model.

    First to its depth, then, where fewer tokens were run, to its tokens.
    """
    layers, kinds = plan.target.layers, get_layer_stack(question.architecture).kinds
    if plan.exact_tokens:
        answer = extrapolate_layers(_filter_by_size(readings, plan.target), layers, kinds)
        notes = (
            *_describe_linearity(answer),
            *_describe_confirmation(plan, readings, kinds, answer),
            *_describe_slope(plan, readings, analytic),
        )
        return replace(answer, notes=notes)
    sizes = dict.fromkeys(replace(reading.point, layers=layers) for reading in readings)
    answers = {
        size: extrapolate_layers(_filter_by_size(readings, size), layers, kinds) for size in sizes
    }
    return _extrapolate_to_tokens(plan.target, answers, analytic)


def is_linear(answer: ExtrapolatedBytes) -> bool:
    """Return whether the runs lie on the lines fitted to them."""
    return answer.residual_bytes <= max(
        ROUNDING_BYTES, LINEAR_SHARE * max(answer.instants.values())
    )


def _filter_by_size(readings: Sequence[PointReading], size: Point) -> tuple[PointReading, ...]:
    """Select the readings with the batch and lengths of ``size``."""
    return tuple(
        reading for reading in readings if replace(reading.point, layers=size.layers) == size
    )


def _describe_linearity(answer: ExtrapolatedBytes) -> tuple[str, ...]:
    if answer.residual_bytes <= ROUNDING_BYTES:
        return ()
    deviation = (
        f"the runs lie up to {format_bytes(answer.residual_bytes)} from the lines drawn through "
        "them"
    )
    if is_linear(answer):
        return (
            f"{deviation}: the answer is good to about as much for every layer that was left out",
        )
    return (
        (
            f"{deviation}: this model is not linear in its layers, so nothing is learnt; ask with "
            "full_depth"
        ),
    )


def _describe_confirmation(
    plan: ProbePlan,
    readings: Sequence[PointReading],
    kinds: Sequence[int],
    answer: ExtrapolatedBytes,
) -> tuple[str, ...]:
    """Compare the extrapolation from slices with the full model's run.

    Empty where the plan did not run both.
    """
    slices = [
        reading
        for reading in _filter_by_size(readings, plan.target)
        if reading.point != plan.target
    ]
    if not slices or plan.extrapolated:
        return ()
    try:
        predicted = max(extrapolate_layers(slices, plan.target.layers, kinds).instants.values())
    except Refusal:
        return ()
    measured = max(answer.instants.values())
    comparison = (
        f"{format_bytes(predicted)} for the whole model, which held {format_bytes(measured)}"
    )
    return (f"the slices alone say {comparison}: {predicted / measured - 1:+.4%}",)


def _describe_slope(
    plan: ProbePlan, readings: Sequence[PointReading], analytic: Analytic
) -> tuple[str, ...]:
    """Compare the measured with the analytic bytes per token, by instant.

    Empty unless fewer tokens were run too.
    """
    target_readings = _filter_by_size(readings, plan.target)
    pairs = [
        (many, few)
        for few in readings
        if few not in target_readings
        for many in target_readings
        if many.point.layers == few.point.layers
    ]
    if not pairs:
        return ()
    many, few = pairs[0]
    tokens = many.point.num_tokens - few.point.num_tokens
    measured = _subtract(compute_instant_peaks(few.live), compute_instant_peaks(many.live))
    predicted = _subtract(analytic(few.point), analytic(many.point))
    deviations = {
        name: abs(measured[name] - predicted[name]) for name in measured if name in predicted
    }
    worst, steepest = max(deviations, key=lambda name: deviations[name]), max(measured.values())
    note = (
        f"a run with {tokens} tokens less shows what a token adds, and the analytic curve is "
        f"farthest off in {worst}: {measured[worst] / tokens:,.0f} bytes against "
        f"{predicted[worst] / tokens:,.0f}, {deviations[worst] / max(1, steepest):.4%} of the "
        "steepest instant"
    )
    return (note,)


def _subtract(few: Mapping[str, int], many: Mapping[str, int]) -> dict[str, int]:
    return {name: many[name] - few[name] for name in many if name in few}


def _extrapolate_to_tokens(
    target: Point, answers: Mapping[Point, ExtrapolatedBytes], analytic: Analytic
) -> ExtrapolatedBytes:
    target_bytes = analytic(target)
    instants = {
        name: extrapolate_tokens(
            {size.num_tokens: answer.instants[name] for size, answer in answers.items()},
            {size.num_tokens: analytic(size)[name] for size in answers},
            num_tokens=target.num_tokens,
            analytic_bytes=target_bytes[name],
        )
        for name in target_bytes
        if all(name in answer.instants for answer in answers.values())
    }
    return ExtrapolatedBytes(
        instants=instants, steady_bytes=min(answer.steady_bytes for answer in answers.values())
    )
