"""Walks the training step: what is allocated at the worst moment of each instant, by component."""

from collections.abc import Callable
from dataclasses import dataclass

from service.estimator.adapters.base import base_of
from service.estimator.architecture import Architecture
from service.estimator.gathering import buckets, gathering
from service.estimator.layout import Layout, Sharding
from service.estimator.library_versions import copies_logits, returns_fp32
from service.estimator.losses import LossPass
from service.estimator.moments import Moment, Parts
from service.estimator.offloading import offloaded
from service.estimator.optimizers.table import optimizer_named
from service.estimator.passes import Highs, TrainingPass, record_training
from service.estimator.precision import Precision
from service.estimator.states import PARAMETER_STAGE, Shards, TrainedParameters, TrainStates, train_states, trained_parameters
from service.estimator.support.images import images_of
from service.estimator.support.lengths import decoder_length
from service.estimator.tape import sizes
from service.estimator.tape.fused_losses import liger_chunk_tokens
from service.estimator.tape.ledger import Point, Section, highest_of
from service.estimator.units import ceil_div
from service.estimator.workload import Loss, Method, Offload, OffloadTarget, TrainWorkload

_ON_THE_GPU = Offload()
Recorder = Callable[[Architecture, TrainingPass], Highs]

_INSTANTS = {
    "forward": (Section.FORWARD,),
    "loss": (Section.LOSS_FORWARD, Section.LOSS_BACKWARD),
    "backward": (Section.BACKWARD,),
}
_BACKWARD = frozenset({Section.LOSS_BACKWARD, Section.BACKWARD})
_PHASES = {
    "forward_pass": (Section.FORWARD, Section.LOSS_FORWARD),
    "backward_pass": (Section.LOSS_BACKWARD, Section.BACKWARD),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """All moments of one step on one rank; ``phases`` count the loss in both passes, as a profiler does."""

    moments: tuple[Moment, ...]
    phases: tuple[tuple[str, int], ...]
    steady_bytes: int
    states: TrainStates
    trained: TrainedParameters
    host_bytes: int = 0
    """Bytes of the rank in the host's memory."""


def training_pass(model: Architecture, workload: TrainWorkload, layout: Layout) -> TrainingPass:
    """Return the part of a workload that decides which tensors a micro batch of a model makes."""
    window = model.spec.sliding_window
    precision = workload.precision
    in_main_buffer = precision.main_grad_persistent and precision.main_grad_dtype is precision.grad_dtype
    base = base_of(model, workload)
    return TrainingPass(
        param_dtype=base.dtype if precision.autocast or base.upcast else precision.compute_dtype,
        autocast=precision.compute_dtype if precision.autocast else None,
        trains_all=workload.method is Method.FULL,
        lora=workload.lora,
        checkpointing=workload.activation_checkpointing,
        attention=workload.attention,
        keeps_logits=workload.keeps_logits,
        accumulating=workload.gradient_accumulation_steps > 1 or in_main_buffer or workload.optimizer_in_backward,
        gathering=gathering(precision, layout, offloads=workload.offload.parameters is not OffloadTarget.NONE),
        scheme=base.scheme,
        compute=precision.compute_dtype,
        copies_logits=copies_logits(workload.framework_version),
        returns_fp32=returns_fp32(workload.framework_version),
        batched=model.recurrent and workload.micro_batch_size > 1,
        padded=workload.padding_mask,
        window_reached=window is not None and workload.sequence_length >= window,
        length=workload.sequence_length if model.chunked else None,
        ranks=layout.tensor_parallel,
        loss=loss_pass(model, workload),
        frozen=workload.frozen,
        steps_in_backward=_temporaries_in_backward(workload, precision),
        decoder_length=decoder_length(model, workload),
        images=images_of(model, workload),
        selective=workload.selective_every,
        offloads_inputs=workload.offload.activations is not OffloadTarget.NONE,
    )


def loss_pass(model: Architecture, workload: TrainWorkload) -> LossPass | None:
    """Return how the loss is computed; None is the model's own way, with all logits."""
    if workload.loss is Loss.FULL_LOGITS:
        return None
    tokens = workload.micro_batch_size * workload.sequence_length
    linear = workload.loss is Loss.FUSED_LINEAR
    return LossPass(
        kind=workload.loss,
        chunk_tokens=liger_chunk_tokens(tokens, hidden_size=model.spec.hidden_size, vocab_size=model.vocab_size)
        if linear
        else 0,
    )


def _temporaries_in_backward(workload: TrainWorkload, precision: Precision) -> int | None:
    if not workload.optimizer_in_backward:
        return None
    elements = optimizer_named(workload.optimizer).temporaries_of_one or 0
    return elements * precision.optimizer_dtype.bytes_per_element


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """The highest moment of a timeline, by name and bytes, with what stays between steps and in the host's memory."""

    name: str
    allocated_bytes: int
    steady_bytes: int
    host_bytes: int


def train_timeline(
    model: Architecture, workload: TrainWorkload, layout: Layout, record: Recorder = record_training
) -> Timeline:
    """Return the timeline of one rank in the steady state."""
    walk, highs, host_bytes = _walked(model, workload, layout, record)
    states = walk.states
    sections = {section: walk.highest(section, points) for section, points in highs.items()}
    moments = [Moment(name="load", allocated_bytes=states.weights + states.buffers, parts=walk.loaded())]
    for name, members in _INSTANTS.items():
        section = max(members, key=lambda member: sections[member][0])
        bytes_, point = sections[section]
        moments.append(Moment(name=name, allocated_bytes=bytes_, parts=walk.parts(section, point)))
    step = walk.step()
    moments.append(Moment(name="optimizer_step", allocated_bytes=sum(step.values()), parts=step))
    phases = [(name, max([sections[member][0] for member in members])) for name, members in _PHASES.items()]
    return Timeline(
        moments=tuple(moments),
        phases=(*phases, ("optimizer_step", moments[-1].allocated_bytes)),
        steady_bytes=walk.steady_bytes,
        states=states,
        trained=walk.trained,
        host_bytes=host_bytes,
    )


def train_peak(model: Architecture, workload: TrainWorkload, layout: Layout, record: Recorder = record_training) -> Peak:
    """Return the peak of the timeline alone, the first one of equals, for a search that asks for nothing else."""
    walk, highs, host_bytes = _walked(model, workload, layout, record)
    name, highest = "load", walk.states.weights + walk.states.buffers
    for instant, members in _INSTANTS.items():
        for section in members:
            bytes_, _ = walk.highest(section, highs[section])
            if bytes_ > highest:
                name, highest = instant, bytes_
    step = sum(walk.step().values())
    if step > highest:
        name, highest = "optimizer_step", step
    return Peak(name=name, allocated_bytes=highest, steady_bytes=walk.steady_bytes, host_bytes=host_bytes)


def _walked(model: Architecture, workload: TrainWorkload, layout: Layout, record: Recorder) -> tuple["_Walk", Highs, int]:
    """Return one rank's step, the recording that it prices, and its bytes in the host's memory."""
    trained = trained_parameters(model, workload)
    states, host_bytes = train_states(model, workload, trained, layout), 0
    if workload.offload != _ON_THE_GPU or states.managed_states:
        states, host = offloaded(states, model, workload, layout, trained)
        host_bytes = host.total
    highs = record(model, training_pass(model, workload, layout))
    return _Walk(workload, layout, states, trained), highs, host_bytes


class _Walk:
    """One rank's step: prices the points of a recording and adds what lives outside of it."""

    def __init__(self, workload: TrainWorkload, layout: Layout, states: TrainStates, trained: TrainedParameters) -> None:
        self.workload, self.layout, self.states, self.trained = workload, layout, states, trained
        self.values = sizes.monomials(workload.micro_batch_size, workload.sequence_length)
        self.grad_bytes, self.shards = trained.grad_dtype.bytes_per_element, Shards.of(layout)
        self.buckets = buckets(layout, workload.precision, trained=trained.trained, grad_bytes=self.grad_bytes)
        keeps_buffer = layout.sharding is Sharding.DEEPSPEED and layout.zero_stage == PARAMETER_STAGE
        self.persistent_gradients = states.gradients * keeps_buffer
        if keeps_buffer or (workload.offload != _ON_THE_GPU and not states.gradients):
            self.grad_bytes = 0
        accumulates = workload.gradient_accumulation_steps > 1 or keeps_buffer
        self.standing_gradients = states.persistent_main_gradients + states.gradients * accumulates
        self.resident_bytes = sum(self.resident().values())
        self.steady_bytes = states.resident + self.buckets.resident + self.persistent_gradients

    def loaded(self) -> Parts:
        """Return the parts after loading."""
        return {"weights": self.states.weights + self.states.buffers}

    def resident(self) -> Parts:
        """Return the parts that live from step to step, adapters with the weights' own name."""
        states = self.states
        return {
            "weights": states.weights + states.buffers,
            "adapters": states.adapters,
            "master_weights": states.master_weights,
            "optimizer_states": states.optimizer_states,
            "gradients": self.standing_gradients,
            "communication_buffers": self.buckets.resident,
        }

    def highest(self, section: Section, points: tuple[Point, ...]) -> tuple[int, Point | None]:
        """Return the bytes of a section's highest point, and the point; a section without one holds what is resident."""
        held = self.resident_bytes + (self.buckets.backward if section in _BACKWARD else 0)
        if not points:
            return held, None
        best = highest_of(points, self.values, gradient_bytes=self.grad_bytes, shards=self.shards.gradients)
        return held + sizes.evaluate(best.bytes, self.values) + self._gradients(best), best

    def parts(self, section: Section, point: Point | None) -> Parts:
        """Return what is alive at a point of a section, by part."""
        parts = self.resident()
        if section in _BACKWARD:
            parts["communication_buffers"] += self.buckets.backward
        if point is not None:
            for name, bytes_ in point.parts_at(self.values).items():
                parts[name] = parts.get(name, 0) + bytes_
            parts["gradients"] += self._gradients(point)
        return parts

    def _gradients(self, point: Point) -> int:
        return ceil_div(point.gradients * self.grad_bytes, self.shards.gradients)

    def step(self) -> Parts:
        """Return the parts at the optimizer's step."""
        states, parts = self.states, self.resident()
        parts["gradients"] = states.gradients + states.persistent_main_gradients + states.step_main_gradients
        parts["temporaries"] = states.step_temporaries
        return parts
