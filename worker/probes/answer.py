"""From what was run to the answer for the asked model, and how far the runs bear it out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from service.estimator.values.units import format_bytes
from service.probing.plan import Plan, Point, Question
from service.probing.refusal import Refusal
from service.probing.stack import stack_of
from worker.probes.run.extrapolate import Answer, Reading, at_depth, at_tokens, instants_of

ROUNDING_BYTES = 512
"""Lines through exact bytes are exact; what is left below this are step counters and roundings of a half."""
LINEAR_SHARE = 0.001
"""Runs that lie farther from their lines than this share of the peak are no evidence for anything."""

Analytic = Callable[[Point], Mapping[str, int]]


def answer_of(plan: Plan, readings: Sequence[Reading], question: Question, analytic: Analytic) -> Answer:
    """Return the bytes of the asked model: first to its depth, then, where fewer tokens were run, to its tokens."""
    layers, kinds = plan.asked.layers, stack_of(question.architecture).kinds
    if plan.exact_tokens:
        found = at_depth(_of_size(readings, plan.asked), layers, kinds)
        notes = (*_linearity(found), *_confirmation(plan, readings, kinds, found), *_slope(plan, readings, analytic))
        return replace(found, notes=notes)
    sizes = dict.fromkeys(replace(reading.point, layers=layers) for reading in readings)
    answers = {size: at_depth(_of_size(readings, size), layers, kinds) for size in sizes}
    return _at_asked_tokens(plan.asked, answers, analytic)


def is_linear(answer: Answer) -> bool:
    """Tell whether the runs lie on the lines that were drawn through them."""
    return answer.residual_bytes <= max(ROUNDING_BYTES, LINEAR_SHARE * max(answer.instants.values()))


def _of_size(readings: Sequence[Reading], size: Point) -> tuple[Reading, ...]:
    """Return the readings that have the batch and the lengths of ``size``."""
    return tuple(reading for reading in readings if replace(reading.point, layers=size.layers) == size)


def _linearity(answer: Answer) -> tuple[str, ...]:
    if answer.residual_bytes <= ROUNDING_BYTES:
        return ()
    far = f"the runs lie up to {format_bytes(answer.residual_bytes)} from the lines drawn through them"
    if is_linear(answer):
        return (f"{far}: the answer is good to about as much for every layer that was left out",)
    return (f"{far}: this model is not linear in its layers, so nothing is learnt; ask with full_depth",)


def _confirmation(plan: Plan, readings: Sequence[Reading], kinds: Sequence[int], found: Answer) -> tuple[str, ...]:
    """Hold what the slices alone would have said against the whole model, where both were run."""
    slices = [reading for reading in _of_size(readings, plan.asked) if reading.point != plan.asked]
    if not slices or plan.extrapolated:
        return ()
    try:
        said = max(at_depth(slices, plan.asked.layers, kinds).instants.values())
    except Refusal:
        return ()
    whole = max(found.instants.values())
    beside = f"{format_bytes(said)} for the whole model, which held {format_bytes(whole)}"
    return (f"the slices alone say {beside}: {said / whole - 1:+.4%}",)


def _slope(plan: Plan, readings: Sequence[Reading], analytic: Analytic) -> tuple[str, ...]:
    """Hold what a token adds to each instant against what the analytic curve says it adds, where fewer tokens were run too."""
    asked = _of_size(readings, plan.asked)
    pairs = [(many, few) for few in readings if few not in asked for many in asked if many.point.layers == few.point.layers]
    if not pairs:
        return ()
    many, few = pairs[0]
    tokens = many.point.num_tokens - few.point.num_tokens
    measured = _added(instants_of(few.live), instants_of(many.live))
    said = _added(analytic(few.point), analytic(many.point))
    off = {name: abs(measured[name] - said[name]) for name in measured if name in said}
    worst, most = max(off, key=lambda name: off[name]), max(measured.values())
    note = (
        f"a run with {tokens} tokens less shows what a token adds, and the analytic curve is farthest off in {worst}: "
        f"{measured[worst] / tokens:,.0f} bytes against {said[worst] / tokens:,.0f}, {off[worst] / max(1, most):.4%} of the "
        "steepest instant"
    )
    return (note,)


def _added(few: Mapping[str, int], many: Mapping[str, int]) -> dict[str, int]:
    return {name: many[name] - few[name] for name in many if name in few}


def _at_asked_tokens(asked: Point, answers: Mapping[Point, Answer], analytic: Analytic) -> Answer:
    at_asked = analytic(asked)
    instants = {
        name: at_tokens(
            {size.num_tokens: answer.instants[name] for size, answer in answers.items()},
            {size.num_tokens: analytic(size)[name] for size in answers},
            num_tokens=asked.num_tokens,
            analytic_bytes=at_asked[name],
        )
        for name in at_asked
        if all(name in answer.instants for answer in answers.values())
    }
    return Answer(instants=instants, steady_bytes=min(answer.steady_bytes for answer in answers.values()))
