"""Timeline of a training step.

It has the bytes at the worst moment of each instant, by component.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from operator import attrgetter, itemgetter

from service.estimator.memory.evaluated_batch import EvaluatedBatch
from service.estimator.memory.offloading import count_host_activation_bytes
from service.estimator.memory.phase_peaks import PhasePeak, PhasePeakBytes, correct_phase_peaks
from service.estimator.memory.setup import resolve_setup
from service.estimator.memory.states import TrainStates
from service.estimator.memory.static import StaticMemory, build_static_memory
from service.estimator.memory.step_prices import INSTANTS, SECTION_INSTANTS, StepPrices, price_step
from service.estimator.memory.trained import TrainedParameters
from service.estimator.memory.training_pass import (
    build_setup_pass,
    resolve_batch_shape,
)
from service.estimator.model.architecture import Architecture
from service.estimator.passes.recorder import record_training
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Section
from service.estimator.tape.sizes import Size
from service.estimator.values.corrections import Corrections
from service.estimator.values.layout import Layout
from service.estimator.values.workload import TrainWorkload

_PHASES = (
    ("forward_pass", Section.FORWARD, Section.LOSS_FORWARD),
    ("backward_pass", Section.LOSS_BACKWARD, Section.BACKWARD),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """All phase peaks of one step on one rank.

    ``phases`` count the loss in both passes, as a profiler does.
    """

    peaks: tuple[PhasePeak, ...]
    phases: tuple[tuple[str, int], ...]
    static_memory: StaticMemory
    host_bytes: int = 0
    """Bytes of the rank in the host's memory."""
    evaluation: EvaluatedBatch | None = None
    """A batch of the evaluation after the step."""

    @property
    def steady_bytes(self) -> int:
        """Bytes between steps."""
        return self.static_memory.steady_bytes

    @property
    def states(self) -> TrainStates:
        """Weights, gradients and optimizer states of the rank."""
        return self.static_memory.states

    @property
    def trained(self) -> TrainedParameters:
        """Parameters that are trained."""
        return self.static_memory.trained


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """Highest phase peak of a timeline.

    It has the bytes that stay between steps and in the host's memory.
    """

    name: str
    allocated_bytes: int
    steady_bytes: int
    host_bytes: int

    def raise_to(self, peaks: Sequence[PhasePeak]) -> "Peak":
        """Return the highest of this one and some phase peaks."""
        highest = self
        for peak in peaks:
            if peak.allocated_bytes > highest.allocated_bytes:
                highest = replace(highest, name=peak.name, allocated_bytes=peak.allocated_bytes)
        return highest


def build_train_timeline(model: Architecture, workload: TrainWorkload, layout: Layout) -> Timeline:
    """Return one rank's timeline in the steady state.

    It is recorded for that rank alone.
    """
    setup = resolve_setup(model, workload, layout)
    config = build_setup_pass(setup, resolve_batch_shape(model, workload))
    prices = price_step(build_static_memory(setup), record_training(model, config))
    values = sizes.evaluate_monomials(*workload.rows)
    num_tokens = prod(workload.rows)
    return build_timeline(prices, values, count_host_activation_bytes(setup, num_tokens))


def build_timeline(prices: StepPrices, values: Size, host_bytes: int) -> Timeline:
    """Return the timeline of a batch and a sequence.

    ``values`` are those of the monomials, ``host_bytes`` those of activations on the host.
    """
    static_memory, sections = prices.static_memory, prices.sections
    highest = {section: part.find_highest(values) for section, part in sections.items()}
    loaded_bytes = static_memory.loaded_bytes
    peaks = [PhasePeak("load", loaded_bytes, {"weights": loaded_bytes})]
    for name, members in INSTANTS.items():
        section = members[0]
        for member in members[1:]:
            if highest[member][0] > highest[section][0]:
                section = member
        bytes_, index = highest[section]
        peaks.append(PhasePeak(name, bytes_, sections[section].evaluate_parts(index, values)))
    step_bytes = static_memory.step_bytes
    peaks.append(PhasePeak("optimizer_step", step_bytes, static_memory.step))
    phases = [(name, max(highest[first][0], highest[last][0])) for name, first, last in _PHASES]
    return Timeline(
        peaks=tuple(peaks),
        phases=(*phases, ("optimizer_step", step_bytes)),
        static_memory=static_memory,
        host_bytes=static_memory.host_bytes + host_bytes,
    )


def find_peak(
    prices: StepPrices,
    values: Size,
    host_bytes: int,
    num_tokens: int,
    corrections: Corrections | None = None,
    evaluated: Sequence[PhasePeak] = (),
) -> Peak:
    """Return the peak of the timeline alone, for a search.

    It is the first one of equals. ``evaluated`` are those of an evaluation after the step.
    """
    static_memory = prices.static_memory
    if corrections is not None:
        step = list_phase_peaks(prices, values)
        sums = [peak.sum_up() for peak in evaluated]
        peaks = correct_phase_peaks((*step, *sums), corrections, num_tokens)
        return select_peak(static_memory, host_bytes, peaks)
    name, highest = _find_highest(prices, values)
    return _build_peak(static_memory, host_bytes, name, highest).raise_to(evaluated)


def _find_highest(prices: StepPrices, values: Size) -> tuple[str, int]:
    """Return the instant of the peak and its bytes."""
    if prices.peaks:
        _, g, h, i, j, k = values
        highest, index = -1, 0
        for place, (a, b, c, d, e, f) in enumerate(prices.peaks):
            price = a + b * g + c * h + d * i + e * j + f * k
            if price > highest:
                highest, index = price, place
        return prices.peak_instants[index], highest
    static_memory = prices.static_memory
    name, highest = "load", static_memory.loaded_bytes
    for section, instant in SECTION_INSTANTS:
        bytes_, _ = prices.sections[section].find_highest(values)
        if bytes_ > highest:
            name, highest = instant, bytes_
    if static_memory.step_bytes > highest:
        name, highest = "optimizer_step", static_memory.step_bytes
    return name, highest


def select_peak(
    static_memory: StaticMemory, host_bytes: int, peaks: Sequence[PhasePeakBytes]
) -> Peak:
    """Return the highest of some phase peaks, the first one of equals."""
    highest = max(peaks, key=attrgetter("allocated_bytes"))
    return _build_peak(static_memory, host_bytes, highest.name, highest.allocated_bytes)


def _build_peak(static_memory: StaticMemory, host_bytes: int, name: str, highest: int) -> Peak:
    return Peak(
        name=name,
        allocated_bytes=highest,
        steady_bytes=static_memory.steady_bytes,
        host_bytes=static_memory.host_bytes + host_bytes,
    )


def list_phase_peaks(prices: StepPrices, values: Size) -> tuple[PhasePeakBytes, ...]:
    """Return the phase peaks of the timeline without their parts."""
    static_memory, sections = prices.static_memory, prices.sections
    resident_gradients = static_memory.resident["gradients"]
    peaks = [PhasePeakBytes("load", static_memory.loaded_bytes, 0, 0)]
    for name, members in INSTANTS.items():
        section_peaks = [(*sections[section].find_highest(values), section) for section in members]
        bytes_, index, section = max(section_peaks, key=itemgetter(0))
        gradients = resident_gradients + sections[section].get_gradient_bytes(index)
        activations = sections[section].get_activation_bytes(index, values)
        peaks.append(PhasePeakBytes(name, bytes_, gradients, activations))
    step_gradients = static_memory.step["gradients"]
    return (*peaks, PhasePeakBytes("optimizer_step", static_memory.step_bytes, step_gradients, 0))
