"""Which models to run so that the asked one is known: full width, few layers, the asked batch where the host can bear it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import inf

from service.estimator.model.architecture import Architecture
from service.estimator.model.trees.encoder_decoder import EncoderDecoder
from service.estimator.values.units import format_bytes
from service.estimator.values.workload import TrainWorkload
from service.jobs.contract import FailureKind, Planned, PlannedRun
from service.jobs.host import Host
from service.probing.duration import point_seconds
from service.probing.plan import Plan, Point, Question, Run, asked_point
from service.probing.refusal import Refusal
from service.probing.slices import Slice, check_slice, slicings, whole

MAX_BUDGET_S = 120.0
BUDGET_SHARE = 0.5
"""Part of the deadline that the steps may take; the rest is for building, for noise and for a busy host."""
CHECK_SHARE = 0.2
"""Part of the budget that everything may take for a run to be added which only checks the others."""
FULL_DEPTH_S = 15.0
"""A device that computes nothing runs the whole model where that takes no longer."""
MIN_SEQUENCE = 16
MIN_SLOPE_SEQUENCE = 64
"""Attention kernels round lengths up to 32: between shorter ones than two such blocks a slope would be of the rounding."""

AnalyticBytes = Callable[[Point], int]


def make_plan(question: Question, host: Host, analytic_bytes: AnalyticBytes) -> Plan:
    """Return the probes of a question, or refuse with numbers what this device cannot hold."""
    asked = asked_point(question)
    choices = _slicings(question, host, asked)
    budget_s = min(MAX_BUDGET_S, question.deadline_s * BUDGET_SHARE)
    for sizes, slices in product(_smaller_and_smaller(asked, question.architecture), choices):
        runs = _runs(sizes, slices, question, host)
        if _holds(runs, host, analytic_bytes) and _seconds(runs) <= budget_s:
            for check in _checks(sizes, slices, question, host):
                checked = (*runs, check.run)
                if _holds(checked, host, analytic_bytes) and _seconds(checked) <= min(check.within_s, CHECK_SHARE * budget_s):
                    runs = checked
            return Plan(asked=asked, runs=runs, notes=_notes(asked, sizes, slices))
    raise _refusal(_smallest(asked, choices[-1]), question, host, analytic_bytes)


def planned(plan: Plan, host: Host) -> Planned:
    """Return a plan as it is told: sizes as a reading has them, and what it rests on."""
    runs = tuple(
        PlannedRun(
            num_layers=run.point.num_layers,
            micro_batch_size=run.point.micro_batch_size,
            sequence_length=run.point.sequence_length + run.point.output_tokens,
            output_tokens=run.point.output_tokens,
            why=run.why,
            expected_s=round(run.expected_s, 3),
        )
        for run in plan.runs
    )
    return Planned(runs=runs, expected_s=round(plan.expected_s, 3), notes=plan.notes, host=host)


def _runs(sizes: tuple[Point, ...], slices: tuple[Slice, ...], question: Question, host: Host) -> tuple[Run, ...]:
    points = ((replace(size, layers=one.layers), one.why) for size in sizes for one in slices)
    return tuple(Run(point=point, why=why, expected_s=point_seconds(point, question, host)) for point, why in points)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Check:
    """A run that the answer does not rest on, and how long everything may take with it."""

    run: Run
    within_s: float


def _checks(sizes: tuple[Point, ...], slices: tuple[Slice, ...], question: Question, host: Host) -> Iterator[_Check]:
    """Yield what the other runs predict: a slice between them and the whole model, and where nothing is computed fewer tokens.

    On a device that computes, fewer tokens cost what they would add elsewhere: time to run more layers, or the asked ones.
    """
    if (deeper := check_slice(question.architecture, slices)) is not None:
        yield _Check(run=_runs(sizes[-1:], (deeper,), question, host)[0], within_s=inf)
    fewer = _fewer_tokens(sizes[-1], question.architecture)
    if len(sizes) == 1 and host.computes_nothing and fewer is not None:
        slope = replace(slices[0], why="fewer tokens: whether bytes follow the analytic curve")
        yield _Check(run=_runs((fewer,), (slope,), question, host)[0], within_s=FULL_DEPTH_S)


def _fewer_tokens(size: Point, architecture: Architecture) -> Point | None:
    """Return half the sequence, or half the batch where the sequence is not ours to cut; None where that says nothing."""
    if not _shrinks(architecture):
        return replace(size, micro_batch_size=size.micro_batch_size // 2) if size.micro_batch_size > 1 else None
    if size.sequence_length < 2 * MIN_SLOPE_SEQUENCE:
        return None
    return replace(size, sequence_length=size.sequence_length // 2, output_tokens=(size.output_tokens + 1) // 2)


def _shrinks(architecture: Architecture) -> bool:
    """Tell whether a sequence may be shorter: not one whose length the model itself decides, nor one with images in it."""
    return architecture.images is None and not isinstance(architecture, EncoderDecoder)


def _slicings(question: Question, host: Host, asked: Point) -> tuple[tuple[Slice, ...], ...]:
    """Return the choices of slices, best first; a model that has none smaller than itself is run whole."""
    model, workload = question.architecture, question.workload
    everything = whole(model)
    adapted = isinstance(workload, TrainWorkload) and workload.lora is not None
    found = tuple(slicings(model, adapted=adapted))
    if not found:
        return ((everything,),)
    if question.full_depth:
        return (*((*slices, everything) for slices in found[:1]), (everything,))
    if host.computes_nothing and point_seconds(asked, question, host) <= FULL_DEPTH_S:
        return ((everything,), *found)
    return found


def _smaller_and_smaller(asked: Point, architecture: Architecture) -> Iterator[tuple[Point, ...]]:
    """Yield the asked batch alone, then pairs of ever smaller ones: two give the slope per token."""
    yield (asked,)
    shrinks = _shrinks(architecture)
    batch, sequence, output = asked.micro_batch_size, asked.sequence_length, asked.output_tokens
    while batch > 1 or (shrinks and sequence > MIN_SEQUENCE):
        if batch > 1:
            batch //= 2
        else:
            sequence, output = max(MIN_SEQUENCE, sequence // 2), output // 2
        large = replace(asked, micro_batch_size=batch, sequence_length=sequence, output_tokens=output)
        if shrinks:
            yield replace(large, sequence_length=max(1, sequence // 2), output_tokens=output // 2), large
        elif batch > 1:
            yield replace(large, micro_batch_size=batch // 2), large


def _holds(runs: tuple[Run, ...], host: Host, analytic_bytes: AnalyticBytes) -> bool:
    if host.available_bytes is None:
        return True
    return all(_needed_bytes(run.point, host, analytic_bytes) <= host.available_bytes for run in runs)


def _needed_bytes(point: Point, host: Host, analytic_bytes: AnalyticBytes) -> int:
    return round(analytic_bytes(point) * host.scratch_factor)


def _seconds(runs: tuple[Run, ...]) -> float:
    return sum(run.expected_s for run in runs)


def _notes(asked: Point, sizes: tuple[Point, ...], slices: tuple[Slice, ...]) -> tuple[str, ...]:
    notes = []
    if all(one.layers != asked.layers for one in slices):
        ran = ", ".join(str(len(one.layers)) for one in slices[:-1])
        ran = f"{ran} and {len(slices[-1].layers)}"
        notes.append(f"ran {ran} of {asked.num_layers} layers; each instant is linear in the layers of a kind")
    if len(sizes) > 1:
        ran = " and ".join(f"{size.micro_batch_size} x {size.sequence_length + size.output_tokens}" for size in sizes)
        notes.append(
            f"ran {ran} of {asked.micro_batch_size} x {asked.sequence_length + asked.output_tokens} tokens: the peaks follow "
            "the analytic curve from there, shifted by what was measured; they are no evidence for it, so there is no "
            "prediction and nothing is learnt"
        )
    return tuple(notes)


def _smallest(asked: Point, slices: tuple[Slice, ...]) -> Point:
    """Return the point that the last choice cannot do without: its deepest slice with the fewest tokens."""
    deepest = max(slices, key=lambda one: len(one.layers))
    sequence, output = min(asked.sequence_length, MIN_SEQUENCE), min(asked.output_tokens, 1)
    return Point(layers=deepest.layers, micro_batch_size=1, sequence_length=sequence, output_tokens=output)


def _refusal(smallest: Point, question: Question, host: Host, analytic_bytes: AnalyticBytes) -> Refusal:
    needed = _needed_bytes(smallest, host, analytic_bytes)
    layers, tokens = smallest.num_layers, smallest.num_tokens
    if host.available_bytes is not None and needed > host.available_bytes:
        message = (
            f"{layers} layers with {tokens} tokens need {format_bytes(needed)} of memory and "
            f"{format_bytes(host.available_bytes)} are free"
        )
        return Refusal(FailureKind.DOES_NOT_FIT_HOST, message)
    seconds = point_seconds(smallest, question, host)
    message = f"{layers} layers with {tokens} tokens would take {seconds:.0f} s here, more than the deadline allows"
    return Refusal(FailureKind.UNSUPPORTED, message)
