"""How long one optimizer step takes: products, attention and memory traffic at measured rates, and what communication adds."""

from dataclasses import dataclass, field
from functools import lru_cache

from service.estimator.memory.optimizers.table import optimizer_named
from service.estimator.memory.states import TrainedParameters
from service.estimator.model.architecture import Architecture
from service.estimator.speed.exposure import update, waiting
from service.estimator.speed.machine import Machine
from service.estimator.speed.micro_batch import Passes
from service.estimator.speed.rates import LAUNCH_S, PRODUCT_OVERHEAD_S, PYTHON_S
from service.estimator.speed.work import FLOPS_PER_PRODUCT, ForwardWork
from service.estimator.tape import sizes
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout
from service.estimator.values.precision import Precision
from service.estimator.values.result import Throughput
from service.estimator.values.workload import Checkpointing, Framework, Method, TrainWorkload

BACKWARD_PRODUCTS = {True: 2, False: 1}
"""Products of backward per product of forward: towards the input, and towards the weight when it is trained."""
BACKWARD_MOVED = 2
"""Element-wise backward reads the gradient and what was kept, and writes a gradient for each operand."""
BACKWARD_ATTENTION = 2.5
"""Five products instead of two (arXiv:2307.08691, section 2.3)."""
LOSS_MOVED = 30
"""Bytes per logit of an unfused loss: write and read 16 bit, fp32 copy, log-softmax, its gradient, and the cast back."""
STEP_MOVED = 3
"""A foreach step reads and writes states, gradients and weights, and writes and reads its temporaries."""
UNPACKED_BYTES = 4.5
SECONDS_PER_HOUR = 3600
MAX_PASSES = 4096
"""Passes that one clock remembers: a search asks for hundreds, and a service lives long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepClock:
    """Times of steps of one model on one GPU that differ in layout, batch and recomputation alone: the rest is shared."""

    model: Architecture
    device: Device
    trained: TrainedParameters
    work: ForwardWork
    _machines: dict[object, Machine | None] = field(default_factory=dict)
    _passes: dict[object, Passes] = field(default_factory=dict)

    def machine(self, workload: TrainWorkload, layout: Layout) -> Machine | None:
        """Return one GPU of a layout; None for one whose rates nobody told."""
        key = (layout.gpus_per_node, layout.network_bytes_per_second)
        if key not in self._machines:
            self._machines[key] = Machine.of(self.device, layout, workload.precision.compute_dtype)
        return self._machines[key]

    def seconds(self, workload: TrainWorkload, layout: Layout, *, state_bytes: int | None = None) -> float | None:
        """Return the time of one optimizer step; None for a GPU whose rates nobody told.

        ``state_bytes`` are those of one rank's optimizer states and master copies; None is what the precision policy says.
        """
        machine = self.machine(workload, layout)
        if machine is None:
            return None
        passes = self._on_one_rank(workload, layout, machine)
        micro = passes.total + waiting(self.model, workload, layout, passes, machine)
        bubble = (layout.pipeline_parallel - 1) / layout.virtual_pipeline_stages
        states = _state_bytes(workload, layout, self.trained) if state_bytes is None else state_bytes
        final = update(workload, layout, self.trained, machine, state_bytes=states, passes_over_states=STEP_MOVED)
        return micro * (workload.gradient_accumulation_steps + bubble) + final

    def _on_one_rank(self, workload: TrainWorkload, layout: Layout, machine: Machine) -> Passes:
        key = (
            workload.framework,
            workload.micro_batch_size,
            workload.activation_checkpointing,
            workload.selective_every,
            layout.tensor_parallel * layout.context_parallel,
            layout.pipeline_parallel,
        )
        found = self._passes.get(key)
        if found is None:
            if len(self._passes) >= MAX_PASSES:
                self._passes.clear()
            found = self._passes[key] = _passes(self.model, workload, layout, self.trained, self.work, machine)
        return found


def training_throughput(
    clock: StepClock, workload: TrainWorkload, layout: Layout, *, state_bytes: int | None = None
) -> Throughput | None:
    """Return the time of one optimizer step and what follows from it; None for a GPU whose rates nobody told."""
    machine = clock.machine(workload, layout)
    seconds = clock.seconds(workload, layout, state_bytes=state_bytes)
    if machine is None or seconds is None:
        return None
    work = clock.work
    tokens = workload.micro_batch_size * workload.sequence_length * workload.gradient_accumulation_steps * layout.data_parallel
    per_token = FLOPS_PER_PRODUCT * (work.block_weights + work.head_weights)
    forward = per_token + work.attention_flops(1, workload.sequence_length) / workload.sequence_length
    rate = tokens / seconds
    return Throughput(
        step_time_s=seconds,
        tokens_per_second=rate,
        tokens_per_second_per_gpu=rate / layout.num_gpus,
        mfu=rate / layout.num_gpus * forward * (1 + BACKWARD_PRODUCTS[workload.method is Method.FULL]) / machine.flops,
        hours_for_tokens=None if workload.num_tokens is None else workload.num_tokens / rate / SECONDS_PER_HOUR,
    )


def _state_bytes(workload: TrainWorkload, layout: Layout, trained: TrainedParameters) -> int:
    states = optimizer_named(workload.optimizer).num_states
    each = _state_bytes_of_one(workload.precision, _MOMENTS if states is None else states)
    split = layout.tensor_parallel * layout.pipeline_parallel * (layout.shards if layout.zero_stage else 1)
    return trained.trained * each // split


_MOMENTS = 2
"""States that a precision policy counts: AdamW's."""


@lru_cache(maxsize=256)
def _state_bytes_of_one(precision: Precision, num_states: int) -> int:
    moments = (num_states - _MOMENTS) * precision.optimizer_dtype.bytes_per_element
    both = precision.param_dtype.bytes_per_element + precision.grad_dtype.bytes_per_element
    return precision.bytes_per_param - both + moments


def _passes(
    model: Architecture,
    workload: TrainWorkload,
    layout: Layout,
    trained: TrainedParameters,
    work: ForwardWork,
    machine: Machine,
) -> Passes:
    batch, length = workload.micro_batch_size, workload.sequence_length
    split = layout.tensor_parallel * layout.context_parallel
    tokens, rates = batch * length, machine.rates
    stages = split * layout.pipeline_parallel
    rate = machine.rate_in(DType.FP8) if workload.float8 else machine.flops * rates.products
    products = tokens * FLOPS_PER_PRODUCT * work.block_weights / stages / rate
    products += work.num_products * PRODUCT_OVERHEAD_S / layout.pipeline_parallel
    head = tokens * FLOPS_PER_PRODUCT * work.head_weights / split / (machine.flops * rates.products)
    attention = work.attention_flops(batch, length) / stages / machine.flops
    forward_attention = attention / rates.attention_forward
    moved = _moved(workload, work, batch, length) / stages / machine.memory
    unpacked = _unpacked(model, workload) / stages / machine.memory
    loss = tokens * work.vocab_size * LOSS_MOVED / split / machine.memory
    full = workload.method is Method.FULL
    adapters = 0.0
    if not full:
        adapters = tokens * 3 * FLOPS_PER_PRODUCT * trained.trained / (stages * machine.rate_in(trained.trained_dtype))
    blocks = products + forward_attention + moved + unpacked
    again = _recomputed(workload, blocks, products, forward_attention)
    backward = BACKWARD_PRODUCTS[full] * (products + head) + BACKWARD_MOVED * moved + unpacked
    backward_attention = BACKWARD_ATTENTION * attention / rates.attention_backward
    backward += backward_attention + adapters + again
    launched = work.launches / layout.pipeline_parallel
    eager = launched * (PYTHON_S + LAUNCH_S)
    return Passes(
        forward=max(blocks + head + loss, eager),
        backward=max(backward, BACKWARD_MOVED * launched * LAUNCH_S + eager * (again > 0)),
        attention_forward=forward_attention,
        attention_backward=backward_attention,
    )


def _unpacked(model: Architecture, workload: TrainWorkload) -> float:
    """Return the bytes of unpacking every quantised weight for one pass: 4 bits read, 16 written and read by the product."""
    packed = workload.method is Method.QLORA or model.quantization is not None
    return model.parameter_counts().total * UNPACKED_BYTES if packed else 0.0


def _moved(workload: TrainWorkload, work: ForwardWork, batch: int, length: int) -> float:
    """Return the bytes that element-wise operations move in forward; a compiler leaves what products read and write."""
    if workload.compile:
        return work.product_bytes * batch * length
    return sizes.evaluate(work.moved, sizes.monomials(batch, length))


def _recomputed(workload: TrainWorkload, blocks: float, products: float, attention: float) -> float:
    match workload.activation_checkpointing:
        case Checkpointing.FULL:
            return blocks
        case Checkpointing.SELECTIVE if workload.selective_every is not None:
            return blocks / workload.selective_every
        case Checkpointing.SELECTIVE if workload.framework is Framework.MEGATRON:
            return attention
        case Checkpointing.SELECTIVE:
            return blocks - products / 2 - attention
        case _:
            return 0.0
