"""Times of prefill and of one decode step.

They rest on the products, on the bytes that are read, and on the host's time to launch them.
"""

from dataclasses import replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.quantization.weights import select_scheme
from service.estimator.model.weights.scheme import Scheme
from service.estimator.speed.attention import count_head_copies, repeats_heads, time_attention
from service.estimator.speed.host import estimate_serving_host_s, replays_decode
from service.estimator.speed.machine import Machine
from service.estimator.speed.rates import KERNEL_S, PRODUCT_OVERHEAD_S, Rates
from service.estimator.speed.work import (
    FLOPS_PER_PRODUCT,
    ForwardWork,
    count_unpacked_bytes,
)
from service.estimator.tape import sizes
from service.estimator.values.device import Device
from service.estimator.values.generation import Client
from service.estimator.values.layout import Layout
from service.estimator.values.result import Throughput
from service.estimator.values.workload import Cache, Engine, ServeWorkload

CONCATENATED = 3
"""A dynamic cache is read and written anew for each token, and read by attention (transformers,
``DynamicLayer.update``).
"""


def estimate_serving_throughput(  # noqa: PLR0913 - a step's time rests on all that describes it
    model: Architecture,
    workload: ServeWorkload,
    layout: Layout,
    device: Device,
    work: ForwardWork,
    *,
    weight_bytes: int,
    cache_bytes: int,
    rates: Rates | None = None,
) -> Throughput | None:
    """Return the times of prefill and of a decode step.

    The cache is full; None for a GPU of unknown rates, and for weights on the host. Every beam is a
    row of both; the gain of speculative decoding rests on how often it guesses right, and is not
    counted. What generates nothing has one pass over all prompts, whose tokens are counted.
    """
    machine = Machine.from_device(device, layout, workload.weight_dtype, rates)
    if machine is None or reads_host(workload):
        return None
    beams = workload.num_beams
    copying_s = _estimate_copying_s(workload, work, layout, machine)
    if beams > 1:
        workload = replace(workload, num_sequences=workload.num_sequences * beams)
    split = layout.tensor_parallel * layout.pipeline_parallel
    scheme = _select_scheme(model, workload)
    host_s, decode_host_s = estimate_serving_host_s(model, workload, scheme, work, machine.rates)
    prefill_gpu_s = _estimate_prefill_s(workload, scheme, work, machine, split)
    prefill = max(prefill_gpu_s, host_s)
    prefill += _estimate_gather_s(model, workload, layout, machine, tokens=workload.prompt_tokens)
    if not model.generates:
        tokens = workload.num_sequences * workload.prompt_tokens * layout.data_parallel
        seconds = prefill, host_s, prefill_gpu_s
        return _describe_pass(layout, machine, work, tokens=tokens, seconds=seconds)
    gpu_s = copying_s + _estimate_decode_kernels_s(
        model,
        workload,
        layout,
        machine,
        work,
        scheme=scheme,
        weight_bytes=weight_bytes,
        cache_bytes=cache_bytes,
    )
    decode = max(gpu_s, decode_host_s)
    decode += _estimate_reduce_s(model, workload, layout, machine) + _estimate_gather_s(
        model, workload, layout, machine, tokens=1
    )
    rate = workload.num_sequences * layout.data_parallel / decode
    flops = FLOPS_PER_PRODUCT * (work.block_weights + work.head_weights)
    return Throughput(
        step_time_s=decode,
        tokens_per_second=rate / beams,
        tokens_per_second_per_gpu=rate / beams / layout.num_gpus,
        mfu=rate / layout.num_gpus * flops / machine.flops,
        prefill_time_s=prefill,
        host_time_s=decode_host_s,
        gpu_time_s=gpu_s,
    )


def _describe_pass(
    layout: Layout,
    machine: Machine,
    work: ForwardWork,
    *,
    tokens: int,
    seconds: tuple[float, float, float],
) -> Throughput:
    """Return the times of a pass that generates nothing.

    ``seconds`` are those of the pass, of its host and of its GPUs.
    """
    step_s, host_s, gpu_s = seconds
    rate = tokens / step_s
    return Throughput(
        step_time_s=step_s,
        tokens_per_second=rate,
        tokens_per_second_per_gpu=rate / layout.num_gpus,
        mfu=rate / layout.num_gpus * FLOPS_PER_PRODUCT * work.block_weights / machine.flops,
        prefill_time_s=step_s,
        host_time_s=host_s,
        gpu_time_s=gpu_s,
    )


def reads_host(workload: ServeWorkload) -> bool:
    """Return whether weights are read from the host's memory."""
    settings = (workload.gpu_layers, workload.cpu_moe_layers, workload.cpu_offload_gb)
    return any(setting is not None for setting in settings)


def _select_scheme(model: Architecture, workload: ServeWorkload) -> Scheme | None:
    """Return the scheme whose weights a pass may unpack.

    The request or the model's own config says it. llama.cpp multiplies the blocks of its files as
    they are.
    """
    if workload.engine is Engine.LLAMA_CPP:
        return None
    return select_scheme(workload.quantization, model)


def _estimate_prefill_s(
    workload: ServeWorkload, scheme: Scheme | None, work: ForwardWork, machine: Machine, split: int
) -> float:
    batch, length = workload.num_sequences, workload.prompt_tokens
    is_transformers = workload.engine is Engine.TRANSFORMERS
    products = (
        batch
        * length
        * FLOPS_PER_PRODUCT
        * (work.count_filled_weights(batch * length) if is_transformers else work.block_weights)
        / split
        / (machine.flops * machine.rates.products)
    )
    flops = work.attention_flops(batch, length) / split
    attention = (
        time_attention(work, machine, flops)[0]
        if is_transformers
        else flops / (machine.flops * machine.rates.attention_forward)
    )
    moved = (
        sizes.evaluate(work.forward.moved, sizes.evaluate_monomials(batch, length))
        / split
        / machine.memory
    )
    if is_transformers:
        dtype, rows = workload.weight_dtype, batch * length
        unpacked = count_unpacked_bytes(work, scheme, rows, dtype)
        moved += unpacked / split / machine.memory
    met = min(1.0, batch * length * work.met_share)
    idle = met * work.idle_weights * workload.weight_dtype.bytes_per_element / split
    return (
        products
        + idle / machine.streaming
        + work.num_products * PRODUCT_OVERHEAD_S
        + attention
        + moved
        + work.forward.kernels * KERNEL_S
    )


def _estimate_decode_kernels_s(  # noqa: PLR0913 - a step's time rests on all that describes it
    model: Architecture,
    workload: ServeWorkload,
    layout: Layout,
    machine: Machine,
    work: ForwardWork,
    *,
    scheme: Scheme | None,
    weight_bytes: int,
    cache_bytes: int,
) -> float:
    """Return the GPU's seconds of one decode step.

    It reads the weights that a batch touches and the cache, or computes the products. A token goes
    through the stages of a pipeline one after another, and each reads its weights for each part of
    the batch.
    """
    counts = model.parameter_counts()
    routed = workload.num_sequences * (layout.data_parallel if layout.expert_parallel > 1 else 1)
    touched = (
        min(1.0, counts.active / counts.total * routed) if counts.active < counts.total else 1.0
    )
    is_concatenated = workload.engine is Engine.TRANSFORMERS and workload.cache is Cache.DYNAMIC
    weights = weight_bytes * touched * layout.pipeline_parallel
    read = (weights + cache_bytes * (CONCATENATED if is_concatenated else 1)) / machine.streaming
    if workload.engine is Engine.TRANSFORMERS:
        copied = count_head_copies(
            model,
            work,
            cache_bytes,
            workload.kv_cache_dtype,
            repeated=repeats_heads(model, workload),
        )
        dtype, rows = workload.weight_dtype, workload.num_sequences
        unpacked = count_unpacked_bytes(work, scheme, rows, dtype)
        read += (copied + 2 * unpacked / layout.tensor_parallel) / machine.memory
    flops = (
        workload.num_sequences
        * FLOPS_PER_PRODUCT
        * (work.block_weights + work.head_weights)
        / layout.tensor_parallel
    )
    products = flops / (machine.flops * machine.rates.products)
    return max(read, products) + (
        work.forward.kernels * KERNEL_S if replays_decode(model, workload) else 0.0
    )


def _estimate_copying_s(
    workload: ServeWorkload, work: ForwardWork, layout: Layout, machine: Machine
) -> float:
    """Return the seconds to copy the weights of each row's experts.

    ``generate`` decodes so without beams: they are written, and read by the row's product
    (transformers, ``batched_mm_experts_forward``).
    """
    is_generated = workload.engine is Engine.TRANSFORMERS and workload.client is Client.GENERATE
    if not is_generated or workload.num_beams > 1:
        return 0.0
    copied = workload.num_sequences * work.routed_weights / layout.tensor_parallel
    width = workload.weight_dtype.bytes_per_element
    return copied * width * (1 / machine.memory + 1 / machine.streaming)


def _estimate_gather_s(
    model: Architecture, workload: ServeWorkload, layout: Layout, machine: Machine, *, tokens: int
) -> float:
    """Return the seconds of gathers between replicas that share experts.

    They gather the tokens of all, and sum the results. So many ``tokens`` of each sequence; twice
    in each layer with experts (vLLM 0.19.0, ``allgather_reducescatter``).
    """
    if layout.expert_parallel == 1 or layout.data_parallel == 1:
        return 0.0
    width = model.spec.hidden_size * workload.weight_dtype.bytes_per_element
    total_bytes = workload.num_sequences * layout.data_parallel * tokens * width
    return (
        2
        * model.counts.num_sparse_blocks
        * machine.links.gather(total_bytes, layout.data_parallel, layout.tensor_parallel)
    )


def _estimate_reduce_s(
    model: Architecture, workload: ServeWorkload, layout: Layout, machine: Machine
) -> float:
    """Return the seconds of tensor-parallel all-reduces.

    Each layer has two of them.
    """
    hidden = (
        workload.num_sequences * model.spec.hidden_size * workload.weight_dtype.bytes_per_element
    )
    return 2 * model.num_hidden_layers * machine.links.reduce(hidden, layout.tensor_parallel)
