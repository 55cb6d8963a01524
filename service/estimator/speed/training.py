"""How long one optimizer step takes: products, attention and memory traffic at measured rates, and what communication adds."""

from dataclasses import dataclass

from service.estimator.architecture import Architecture
from service.estimator.device import Device
from service.estimator.dtypes import DType
from service.estimator.layout import Layout, Sharding
from service.estimator.result import Throughput
from service.estimator.speed.links import Links
from service.estimator.speed.machine import Machine
from service.estimator.speed.rates import LAUNCH_S, PCIE_BYTES_PER_SECOND, PRODUCT_OVERHEAD_S, PYTHON_S
from service.estimator.speed.work import FLOPS_PER_PRODUCT, ForwardWork
from service.estimator.states import PARAMETER_STAGE, TrainedParameters
from service.estimator.tape import sizes
from service.estimator.workload import Checkpointing, Framework, Method, OffloadTarget, TrainWorkload

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
SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class _Passes:
    """Seconds of one micro batch on one rank."""

    forward: float
    backward: float
    host: float
    """of the process that launches the operations, which a GPU waits for when they are small"""

    @property
    def total(self) -> float:
        return max(self.forward + self.backward, self.host)


def training_throughput(
    model: Architecture,
    workload: TrainWorkload,
    layout: Layout,
    device: Device,
    trained: TrainedParameters,
    work: ForwardWork,
) -> Throughput | None:
    """Return the time of one optimizer step and what follows from it; None for a GPU whose rates nobody told."""
    machine = Machine.of(device, layout, workload.precision.compute_dtype)
    if machine is None:
        return None
    passes = _passes(workload, layout, trained, work, machine)
    micro = passes.total + _exposed(model, workload, layout, passes, machine)
    steps = workload.gradient_accumulation_steps
    bubble = (layout.pipeline_parallel - 1) / layout.virtual_pipeline_stages
    seconds = micro * (steps + bubble) + _update(workload, layout, trained, machine)
    tokens = workload.micro_batch_size * workload.sequence_length * steps * layout.data_parallel
    per_token = FLOPS_PER_PRODUCT * (work.block_weights + work.head_weights)
    flops = 3 * (per_token + work.attention_flops(1, workload.sequence_length) / workload.sequence_length)
    rate = tokens / seconds
    return Throughput(
        step_time_s=seconds,
        tokens_per_second=rate,
        tokens_per_second_per_gpu=rate / layout.num_gpus,
        mfu=rate / layout.num_gpus * flops / machine.flops,
        hours_for_tokens=None if workload.num_tokens is None else workload.num_tokens / rate / SECONDS_PER_HOUR,
    )


def _passes(
    workload: TrainWorkload, layout: Layout, trained: TrainedParameters, work: ForwardWork, machine: Machine
) -> _Passes:
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
    loss = tokens * work.vocab_size * LOSS_MOVED / split / machine.memory
    full = workload.method is Method.FULL
    adapters = (
        0.0 if full else tokens * 3 * FLOPS_PER_PRODUCT * trained.trained / stages / machine.rate_in(trained.trained_dtype)
    )
    blocks = products + forward_attention + moved
    again = _recomputed(workload, blocks, products, forward_attention)
    backward = BACKWARD_PRODUCTS[full] * (products + head) + BACKWARD_MOVED * moved
    backward += BACKWARD_ATTENTION * attention / rates.attention_backward + adapters + again
    launched = work.launches / layout.pipeline_parallel * (1 + (again > 0))
    return _Passes(
        forward=blocks + head + loss,
        backward=backward,
        host=launched * (PYTHON_S + LAUNCH_S) + BACKWARD_MOVED * work.launches / layout.pipeline_parallel * LAUNCH_S,
    )


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


def _exposed(model: Architecture, workload: TrainWorkload, layout: Layout, passes: _Passes, machine: Machine) -> float:
    """Return the seconds of one micro batch in which the GPU waits for others."""
    links, split = machine.links, layout.tensor_parallel * layout.pipeline_parallel
    width = workload.precision.compute_dtype.bytes_per_element
    weights = model.parameter_counts().total * width / split
    exposed = _tensor_parallel(model, workload, layout, links)
    if layout.shards == 1 or layout.zero_stage < PARAMETER_STAGE:
        return exposed
    gather = links.gather(weights, layout.shards, layout.tensor_parallel)
    share = 1.0 if workload.method is Method.FULL else 0.0
    reduced = (workload.precision.reduce_dtype or workload.precision.grad_dtype).bytes_per_element / width
    reduce = gather * reduced * share
    again = gather if layout.reshard_after_forward else 0.0
    if layout.sharding is Sharding.DEEPSPEED:
        return exposed + gather + again + max(reduce - passes.backward, 0)  # its prefetch is smaller than one layer
    first = gather / (model.num_hidden_layers + 1)
    return exposed + first + max(gather - passes.forward, 0) + max(again + reduce - passes.backward, 0)


def _tensor_parallel(model: Architecture, workload: TrainWorkload, layout: Layout, links: Links) -> float:
    """Return the seconds of the all-reduces of two halves of each layer, in forward, backward and recomputation."""
    if layout.tensor_parallel == 1:
        return 0.0
    passes = 3 if workload.activation_checkpointing is Checkpointing.FULL else 2
    tokens = workload.micro_batch_size * workload.sequence_length / layout.context_parallel
    hidden = tokens * model.spec.hidden_size * workload.precision.compute_dtype.bytes_per_element
    layers = model.num_hidden_layers / layout.pipeline_parallel
    return 2 * passes * layers * links.reduce(hidden, layout.tensor_parallel)


def _update(workload: TrainWorkload, layout: Layout, trained: TrainedParameters, machine: Machine) -> float:
    """Return the seconds after the last backward: gradients that are not reduced yet, the step, and updated weights."""
    split, precision = layout.tensor_parallel * layout.pipeline_parallel, workload.precision
    local = trained.trained / split
    sharded = local / (layout.shards if layout.zero_stage else 1)
    seconds = sharded * precision.bytes_per_param * STEP_MOVED / machine.memory
    gradients = local * trained.grad_dtype.bytes_per_element
    if layout.zero_stage == 0:
        seconds += machine.links.reduce(gradients, layout.shards, layout.tensor_parallel)
    elif layout.zero_stage < PARAMETER_STAGE:
        weights = local * trained.trained_dtype.bytes_per_element
        seconds += machine.links.gather(gradients + weights, layout.shards, layout.tensor_parallel)
    if workload.offload.optimizer is not OffloadTarget.NONE:
        seconds += sharded * (precision.bytes_per_param - 2) / PCIE_BYTES_PER_SECOND
    return seconds
