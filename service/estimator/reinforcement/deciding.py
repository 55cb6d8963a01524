"""Answers of a policy's training, by its largest phase."""

from collections.abc import Sequence
from dataclasses import replace

from service.estimator.memory.answer.explain import TrainFormulas
from service.estimator.memory.phase_peaks import PhasePeak
from service.estimator.memory.question import TrainQuestion
from service.estimator.memory.static import StaticMemory
from service.estimator.memory.training_pass import describe_batch
from service.estimator.reinforcement.phase import ROLLOUT, WEIGHT_SYNC, Phase
from service.estimator.reinforcement.share import GpuShare
from service.estimator.values.result import (
    Basis,
    Component,
    Estimate,
    Instant,
    Interval,
    Stage,
)
from service.estimator.values.workload import TrainWorkload


def list_instants(
    update: Estimate, phases: Sequence[Phase], resident: GpuShare
) -> tuple[Instant, ...]:
    """Return all instants, tensors of engine and critic among them."""
    before = [phase for phase in phases if phase.name in {WEIGHT_SYNC, ROLLOUT}]
    after = [phase for phase in phases if phase not in before]
    return (
        *update.instants[:1],
        *(_make_instant(phase) for phase in (*before, *after)),
        *(
            Instant(
                moment.name,
                moment.allocated_bytes + resident.tensors,
                {**moment.parts, **resident.parts},
            )
            for moment in update.instants[1:]
        ),
    )


def _make_instant(phase: Phase) -> Instant:
    parts = {name: size for name, size in phase.parts.items() if size}
    return Instant(phase.name, phase.tensors + phase.share.tensors, {**parts, **phase.share.parts})


def add_share(update: Estimate, share: GpuShare, highest: Phase) -> Estimate:
    """Return the update beside what engine and critic hold meanwhile.

    The ``highest`` phase may yet take more, at the upper end of its interval.
    """
    outside = update.device_bytes - update.reserved_bytes
    limit = highest.tensors + highest.slack + highest.spread.high + highest.share.interval.high
    device = _widen(update.device_interval, share.interval)
    device = Interval(device.low, max(device.high, limit + outside))
    components = (*update.components, *share.components) if update.components else ()
    allocated = update.allocated_bytes + share.tensors
    return replace(
        update,
        allocated_bytes=allocated,
        reserved_bytes=update.reserved_bytes + share.device_bytes,
        device_bytes=update.device_bytes + share.device_bytes,
        allocated_interval=shift(update.allocated_interval, share.tensors),
        reserved_interval=_widen(update.reserved_interval, share.interval),
        device_interval=device,
        components=components,
        stages=(Stage(0, allocated, update.steady_bytes),),
    )


def decide_by_phase(
    added: Estimate,
    update: Estimate,
    phase: Phase,
    resident: GpuShare,
    question: TrainQuestion,
    static_memory: StaticMemory,
) -> Estimate:
    """Return the estimate whose quantities are those of a phase.

    The update may yet take more, at the upper end of its interval.
    """
    outside = update.device_bytes - update.reserved_bytes
    engine, allocated = phase.share, phase.tensors + phase.share.tensors
    device = phase.reserved_bytes + outside
    interval = _widen(shift(phase.spread, device - engine.device_bytes), engine.interval)
    limit = update.device_interval.high + resident.interval.high
    interval = Interval(min(device, interval.low), max(device, interval.high, limit))
    return replace(
        added,
        allocated_bytes=allocated,
        reserved_bytes=phase.reserved_bytes,
        device_bytes=device,
        allocated_interval=Interval(allocated, allocated),
        reserved_interval=shift(interval, -outside),
        device_interval=interval,
        peak_instant=phase.name,
        stages=(Stage(0, allocated, added.steady_bytes),),
        components=_explain(phase, update, static_memory, question.workload, outside)
        if question.detail.is_explained
        else (),
    )


def _explain(
    phase: Phase,
    update: Estimate,
    static_memory: StaticMemory,
    workload: TrainWorkload,
    outside: int,
) -> tuple[Component, ...]:
    notes = describe_batch(static_memory.model, workload)
    peak = PhasePeak(phase.name, phase.tensors, phase.parts)
    sources = {part.name: part.source for part in update.components}
    overheads = (
        ("allocator_slack", phase.slack, "as in the update"),
        ("device_context", outside, "context, libraries and communicators"),
    )
    return (
        *TrainFormulas(static_memory).build_components(notes, peak),
        *phase.share.components,
        *(
            Component(
                name,
                size,
                Basis.FORMULA,
                formula,
                sources.get(name, "as in the update"),
            )
            for name, size, formula in overheads
            if size
        ),
    )


def shift(interval: Interval, added: int) -> Interval:
    """Return an interval moved by so many bytes."""
    return Interval(interval.low + added, interval.high + added)


def _widen(interval: Interval, added: Interval) -> Interval:
    return Interval(interval.low + added.low, interval.high + added.high)
