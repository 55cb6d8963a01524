"""Which models to run so that the asked one is known: full width, few layers, the asked batch where the host can bear it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product

from service.estimator.architecture import Architecture
from service.estimator.encoder_decoder import EncoderDecoder
from service.estimator.layout import Layout
from service.estimator.units import format_bytes
from service.estimator.workload import Checkpointing, ServeWorkload, TrainWorkload, Workload
from service.jobs.contract import FailureKind
from worker.probes.refusal import Refusal
from worker.probes.slices import Slice, check_slice, slicings, whole
from worker.probes.stack import keep, stack_of

NUM_MICRO_BATCHES = 2
"""Micro-batches of one step under accumulation: the second already sees gradients, a third sees nothing new."""
_SERVE_PASSES = 3
"""Prefill, the pass that fills the cache to its last length, and the decode of one token."""
NUM_STEPS = 2
"""The first step makes the optimizer's states; the second is the steady one that is measured."""
MAX_BUDGET_S = 120.0
BUDGET_SHARE = 0.5
"""Part of the deadline that the steps may take; the rest is for building, for noise and for a busy host."""
CHECK_SHARE = 0.2
"""Part of the budget that everything may take for a slice to be added which only checks the others."""
FULL_DEPTH_S = 15.0
"""A device that computes nothing runs the whole model where that takes no longer."""
MIN_SEQUENCE = 16
STEP_BYTES_PER_PARAMETER = 60
"""What a foreach AdamW step reads and writes per parameter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One model to run: the asked one with only these of its ``layers``; ``sequence_length`` counts the prompt in serving."""

    layers: tuple[int, ...]
    micro_batch_size: int
    sequence_length: int
    output_tokens: int = 0

    @property
    def num_layers(self) -> int:
        """Layers that are kept."""
        return len(self.layers)

    @property
    def num_tokens(self) -> int:
        """Tokens of one pass, output included."""
        return self.micro_batch_size * (self.sequence_length + self.output_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What a device can bear; what does not bound it is None.

    ``available_bytes`` is for tensors and their scratch, ``scratch_factor`` the room for both over the tensors alone. Where
    nothing is computed, as under fake tensors, a layer's step takes the same time whatever its size:
    ``layer_steps_per_second`` (forward and backward, or one pass in serving).
    """

    available_bytes: int | None = None
    flops_per_second: float | None = None
    state_bytes_per_second: float | None = None
    layer_steps_per_second: float | None = None
    scratch_factor: float = 1.0
    num_steps: int = 2
    """Training steps of one point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What was asked."""

    architecture: Architecture
    workload: Workload
    layout: Layout
    full_depth: bool
    deadline_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One point of a plan, what it is run for, and how long that is expected to take."""

    point: Point
    why: str
    expected_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to run, small sizes first; ``asked`` is the point that the answer is for."""

    asked: Point
    runs: tuple[Run, ...]
    notes: tuple[str, ...] = ()

    @property
    def points(self) -> tuple[Point, ...]:
        """The points alone."""
        return tuple(run.point for run in self.runs)

    @property
    def expected_s(self) -> float:
        """Seconds that all runs together are expected to take."""
        return sum(run.expected_s for run in self.runs)

    @property
    def exact_tokens(self) -> bool:
        """Whether the asked batch and sequence are run themselves."""
        return any(replace(point, layers=self.asked.layers) == self.asked for point in self.points)

    @property
    def extrapolated(self) -> bool:
        """Whether the asked model is not among those that are run."""
        return self.asked not in self.points


AnalyticBytes = Callable[[Point], int]


def make_plan(question: Question, host: Host, analytic_bytes: AnalyticBytes) -> Plan:
    """Return the probes of a question, or refuse with numbers what this device cannot hold."""
    asked = asked_point(question)
    choices = _slicings(question, host, asked)
    budget_s = min(MAX_BUDGET_S, question.deadline_s * BUDGET_SHARE)
    for sizes, slices in product(_smaller_and_smaller(asked, question.architecture), choices):
        runs = _runs(sizes, slices, question, host)
        if _holds(runs, host, analytic_bytes) and _seconds(runs) <= budget_s:
            checked = _with_check(runs, sizes, slices, question, host)
            better = _holds(checked, host, analytic_bytes) and _seconds(checked) <= CHECK_SHARE * budget_s
            return Plan(asked=asked, runs=checked if better else runs, notes=_notes(asked, sizes, slices))
    raise _refusal(_smallest(asked, choices[-1]), question, host, analytic_bytes)


def _runs(sizes: tuple[Point, ...], slices: tuple[Slice, ...], question: Question, host: Host) -> tuple[Run, ...]:
    points = ((replace(size, layers=one.layers), one.why) for size in sizes for one in slices)
    return tuple(Run(point=point, why=why, expected_s=_point_seconds(point, question, host)) for point, why in points)


def _with_check(
    runs: tuple[Run, ...], sizes: tuple[Point, ...], slices: tuple[Slice, ...], question: Question, host: Host
) -> tuple[Run, ...]:
    """Return the runs and one that only checks them, where there is room for one between them and the whole model."""
    check = check_slice(question.architecture, slices)
    return runs if check is None else (*runs, *_runs(sizes[-1:], (check,), question, host))


def asked_point(question: Question) -> Point:
    """Return the point that the answer is for."""
    workload, layers = question.workload, stack_of(question.architecture).layers
    if isinstance(workload, TrainWorkload):
        return Point(
            layers=layers,
            micro_batch_size=workload.micro_batch_size,
            sequence_length=workload.sequence_length,
        )
    return Point(
        layers=layers,
        micro_batch_size=workload.num_sequences,
        sequence_length=workload.prompt_tokens,
        output_tokens=workload.output_tokens,
    )


def workload_at(workload: Workload, point: Point) -> Workload:
    """Return the workload with the batch and the lengths of ``point``."""
    if isinstance(workload, TrainWorkload):
        return replace(workload, micro_batch_size=point.micro_batch_size, sequence_length=point.sequence_length)
    return replace(
        workload,
        num_sequences=point.micro_batch_size,
        prompt_tokens=point.sequence_length,
        output_tokens=point.output_tokens,
    )


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
    computes_nothing = host.flops_per_second is None and host.layer_steps_per_second is not None
    if computes_nothing and _point_seconds(asked, question, host) <= FULL_DEPTH_S:
        return ((everything,), *found)
    return found


def _smaller_and_smaller(asked: Point, architecture: Architecture) -> Iterator[tuple[Point, ...]]:
    """Yield the asked batch alone, then pairs of ever smaller ones: two give the slope per token.

    A sequence whose length the model itself decides stays as long as it is, and so does one with images in it.
    """
    yield (asked,)
    shrinks = architecture.images is None and not isinstance(architecture, EncoderDecoder)
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


def _point_seconds(point: Point, question: Question, host: Host) -> float:
    """Return the seconds of one probe: 6 FLOP per parameter and token to train on it, 2 to serve it (arXiv:2001.08361)."""
    model, workload = keep(question.architecture, point.layers), question.workload
    counts = model.parameter_counts()
    multiplied = counts.active - (0 if model.tied else counts.embedding)
    if isinstance(workload, ServeWorkload):
        return _SERVE_PASSES * point.num_layers * _inverse(host.layer_steps_per_second) + (
            2 * multiplied * point.num_tokens * _inverse(host.flops_per_second)
        )
    passes = 8 if workload.activation_checkpointing is Checkpointing.FULL else 6
    update_s = 0.0 if workload.lora else counts.total * STEP_BYTES_PER_PARAMETER * _inverse(host.state_bytes_per_second)
    num_micro_batches = min(NUM_MICRO_BATCHES, workload.gradient_accumulation_steps)
    micro_batch_s = passes * multiplied * point.num_tokens * _inverse(host.flops_per_second)
    micro_batch_s += point.num_layers * _inverse(host.layer_steps_per_second)
    return host.num_steps * (num_micro_batches * micro_batch_s + update_s)


def _inverse(per_second: float | None) -> float:
    return 0.0 if per_second is None else 1 / per_second


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
    seconds = _point_seconds(smallest, question, host)
    message = f"{layers} layers with {tokens} tokens would take {seconds:.0f} s here, more than the deadline allows"
    return Refusal(FailureKind.UNSUPPORTED, message)
