"""Choice of the models to run for a probe.

The target is known from runs of full width with few layers, at its own batch where the host has
room for it.
"""

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
from service.probing.duration import estimate_point_seconds
from service.probing.pace import HostShare, plan_pace
from service.probing.plan import Point, ProbePlan, ProbeQuestion, Run, get_target_point
from service.probing.refusal import Refusal
from service.probing.slices import Slice, find_check_slice, get_full_slice, iter_slicings

MAX_BUDGET_S = 120.0
BUDGET_SHARE = 0.5
"""Share of the deadline for the steps.

The rest is for building, for noise and for a busy host.
"""
CHECK_SHARE = 0.2
"""Share of the budget up to which a run is added that only checks the others."""
FULL_DEPTH_S = 15.0
"""Seconds up to which a device that computes nothing runs the full model."""
MIN_SEQUENCE = 16
MIN_SLOPE_SEQUENCE = 64
"""Attention kernels round lengths up to 32: between shorter ones than two such blocks a slope would
be of the rounding.
"""

AnalyticBytes = Callable[[Point], int]


def make_plan(
    question: ProbeQuestion,
    host: Host,
    analytic_bytes: AnalyticBytes,
    get_host_share: HostShare | None = None,
) -> ProbePlan:
    """Plan the runs of a question's probe.

    ``get_host_share`` is of a device whose host and GPU both have a part in a run's time. Raises
    Refusal, with numbers, for what this device cannot hold.
    """
    target = get_target_point(question)
    choices = _list_slicings(question, host, target)
    budget_s = min(MAX_BUDGET_S, question.deadline_s * BUDGET_SHARE)
    for sizes, slices in product(_iter_sizes(target, question.architecture), choices):
        runs = _build_runs(sizes, slices, question, host)
        if _fits_host(runs, host, analytic_bytes) and _sum_seconds(runs) <= budget_s:
            for check in _iter_checks(sizes, slices, question, host):
                checked = (*runs, check.run)
                if _fits_host(checked, host, analytic_bytes) and _sum_seconds(checked) <= min(
                    check.within_s, CHECK_SHARE * budget_s
                ):
                    runs = checked
            return ProbePlan(
                target=target,
                runs=runs,
                notes=_build_notes(target, sizes, slices),
                # Measurements of other tokens teach nothing.
                pace=None
                if get_host_share is None or len(sizes) > 1
                else plan_pace(
                    runs[-1].point,
                    question,
                    host,
                    get_host_share,
                    shrinks=_can_shrink_sequence(question.architecture),
                    within_s=CHECK_SHARE * budget_s,
                ),
            )
    raise _make_refusal(_get_smallest_point(target, choices[-1]), question, host, analytic_bytes)


def to_planned(plan: ProbePlan, host: Host) -> Planned:
    """Convert a plan to its form in the job contract.

    Sizes are given as a reading has them.
    """
    runs = tuple(
        PlannedRun(
            num_layers=run.point.num_layers,
            micro_batch_size=run.point.micro_batch_size,
            sequence_length=run.point.sequence_length + run.point.output_tokens,
            output_tokens=run.point.output_tokens,
            why=run.why,
            expected_s=round(run.expected_s, 3),
        )
        for run in plan.all_runs
    )
    return Planned(runs=runs, expected_s=round(plan.expected_s, 3), notes=plan.notes, host=host)


def _build_runs(
    sizes: tuple[Point, ...], slices: tuple[Slice, ...], question: ProbeQuestion, host: Host
) -> tuple[Run, ...]:
    points = (
        (replace(size, layers=layer_slice.layers), layer_slice.why)
        for size in sizes
        for layer_slice in slices
    )
    return tuple(
        Run(point=point, why=why, expected_s=estimate_point_seconds(point, question, host))
        for point, why in points
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Check:
    """An additional run for verification.

    The answer does not rest on it; ``within_s`` is how long everything may take with it.
    """

    run: Run
    within_s: float


def _iter_checks(
    sizes: tuple[Point, ...], slices: tuple[Slice, ...], question: ProbeQuestion, host: Host
) -> Iterator[_Check]:
    """Yield runs that verify the predictions of the others.

    They are a slice between them and the full model, and where nothing is computed fewer tokens.

    On a device that computes, fewer tokens cost what they would add elsewhere: time to run more
    layers, or the asked ones.
    """
    if (deeper := find_check_slice(question.architecture, slices)) is not None:
        yield _Check(run=_build_runs(sizes[-1:], (deeper,), question, host)[0], within_s=inf)
    fewer = _shrink_tokens(sizes[-1], question.architecture)
    if len(sizes) == 1 and host.has_no_compute and fewer is not None:
        slope = replace(slices[0], why="fewer tokens: whether bytes follow the analytic curve")
        yield _Check(run=_build_runs((fewer,), (slope,), question, host)[0], within_s=FULL_DEPTH_S)


def _shrink_tokens(size: Point, architecture: Architecture) -> Point | None:
    """Return half the sequence, or half the batch.

    The batch is halved where the sequence cannot be cut; None where that says nothing.
    """
    if not _can_shrink_sequence(architecture):
        return (
            replace(size, micro_batch_size=size.micro_batch_size // 2)
            if size.micro_batch_size > 1
            else None
        )
    if size.sequence_length < 2 * MIN_SLOPE_SEQUENCE:
        return None
    return replace(
        size, sequence_length=size.sequence_length // 2, output_tokens=(size.output_tokens + 1) // 2
    )


def _can_shrink_sequence(architecture: Architecture) -> bool:
    """Return whether a sequence may be shorter.

    Not one whose length the model itself decides, nor one with images in it.
    """
    return architecture.images is None and not isinstance(architecture, EncoderDecoder)


def _list_slicings(
    question: ProbeQuestion, host: Host, target: Point
) -> tuple[tuple[Slice, ...], ...]:
    """Return the choices of slices, best first.

    A model that has none smaller than itself is run in full.
    """
    model, workload = question.architecture, question.workload
    everything = get_full_slice(model)
    adapted = isinstance(workload, TrainWorkload) and workload.lora is not None
    choices = tuple(iter_slicings(model, adapted=adapted))
    if not choices:
        return ((everything,),)
    if question.full_depth:
        return (*((*slices, everything) for slices in choices[:1]), (everything,))
    if host.reserves:
        # What is reserved, the context and the time are those of a GPU: whatever fits it is run.
        return ((everything,), *choices)
    if host.has_no_compute and estimate_point_seconds(target, question, host) <= FULL_DEPTH_S:
        return ((everything,), *choices)
    return choices


def _iter_sizes(target: Point, architecture: Architecture) -> Iterator[tuple[Point, ...]]:
    """Yield the target size alone, then pairs of smaller ones.

    Two sizes give the slope per token.
    """
    yield (target,)
    shrinks = _can_shrink_sequence(architecture)
    batch, sequence, output = target.micro_batch_size, target.sequence_length, target.output_tokens
    while batch > 1 or (shrinks and sequence > MIN_SEQUENCE):
        if batch > 1:
            batch //= 2
        else:
            sequence, output = max(MIN_SEQUENCE, sequence // 2), output // 2
        large = replace(
            target, micro_batch_size=batch, sequence_length=sequence, output_tokens=output
        )
        if shrinks:
            yield (
                replace(large, sequence_length=max(1, sequence // 2), output_tokens=output // 2),
                large,
            )
        elif batch > 1:
            yield replace(large, micro_batch_size=batch // 2), large


def _fits_host(runs: tuple[Run, ...], host: Host, analytic_bytes: AnalyticBytes) -> bool:
    if host.available_bytes is None:
        return True
    return all(
        _needed_bytes(run.point, host, analytic_bytes) <= host.available_bytes for run in runs
    )


def _needed_bytes(point: Point, host: Host, analytic_bytes: AnalyticBytes) -> int:
    return round(analytic_bytes(point) * host.scratch_factor)


def _sum_seconds(runs: tuple[Run, ...]) -> float:
    return sum(run.expected_s for run in runs)


def _build_notes(
    target: Point, sizes: tuple[Point, ...], slices: tuple[Slice, ...]
) -> tuple[str, ...]:
    notes = []
    if all(layer_slice.layers != target.layers for layer_slice in slices):
        ran = ", ".join(str(len(layer_slice.layers)) for layer_slice in slices[:-1])
        ran = f"{ran} and {len(slices[-1].layers)}"
        notes.append(
            f"ran {ran} of {target.num_layers} layers; each instant is linear in the layers of a "
            "kind"
        )
    if len(sizes) > 1:
        ran = " and ".join(
            f"{size.micro_batch_size} x {size.sequence_length + size.output_tokens}"
            for size in sizes
        )
        notes.append(
            f"ran {ran} of {target.micro_batch_size} x "
            f"{target.sequence_length + target.output_tokens} tokens: the peaks follow the "
            "analytic curve from there, shifted by what was measured; they are no evidence for "
            "it, so there is no prediction and nothing is learnt",
        )
    return tuple(notes)


def _get_smallest_point(target: Point, slices: tuple[Slice, ...]) -> Point:
    """Return the smallest point that the last choice needs.

    It is the deepest slice with the fewest tokens.
    """
    deepest = max(slices, key=lambda layer_slice: len(layer_slice.layers))
    sequence, output = min(target.sequence_length, MIN_SEQUENCE), min(target.output_tokens, 1)
    return Point(
        layers=deepest.layers, micro_batch_size=1, sequence_length=sequence, output_tokens=output
    )


def _make_refusal(
    smallest: Point, question: ProbeQuestion, host: Host, analytic_bytes: AnalyticBytes
) -> Refusal:
    needed = _needed_bytes(smallest, host, analytic_bytes)
    layers, tokens = smallest.num_layers, smallest.num_tokens
    if host.available_bytes is not None and needed > host.available_bytes:
        message = (
            f"{layers} layers with {tokens} tokens need {format_bytes(needed)} of memory and "
            f"{format_bytes(host.available_bytes)} are free"
        )
        return Refusal(FailureKind.DOES_NOT_FIT_HOST, message)
    seconds = estimate_point_seconds(smallest, question, host)
    message = (
        f"{layers} layers with {tokens} tokens would take {seconds:.0f} s here, more than the "
        "deadline allows"
    )
    return Refusal(FailureKind.UNSUPPORTED, message)
