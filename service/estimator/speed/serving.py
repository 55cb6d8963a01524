"""How long prefill and one decode step take: what is multiplied, what is read, and what the host needs to launch it."""

from dataclasses import replace

from service.estimator.model.architecture import Architecture
from service.estimator.speed.machine import Machine
from service.estimator.speed.rates import LAUNCH_S, PRODUCT_OVERHEAD_S, PYTHON_S
from service.estimator.speed.work import FLOPS_PER_PRODUCT, ForwardWork
from service.estimator.tape import sizes
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.result import Throughput
from service.estimator.values.workload import Cache, Engine, Quantization, ServeWorkload

CONCATENATED = 3
"""A dynamic cache is read and written anew for each token, and read by attention (transformers, ``DynamicLayer.update``)."""

QUANTIZED_LAUNCHES = 2
"""More operations than a plain product: an empty output and the bias, or the weights unpacked first (AutoGPTQ 0.7.1,
``qlinear_exllama.py``; AutoAWQ 0.2.6, ``gemm.py``; bitsandbytes, ``MatMul4Bit``)."""


def serving_throughput(  # noqa: PLR0913 - a step's time rests on all that describes it
    model: Architecture,
    workload: ServeWorkload,
    layout: Layout,
    device: Device,
    work: ForwardWork,
    *,
    weight_bytes: int,
    cache_bytes: int,
) -> Throughput | None:
    """Return the time of prefill and of a decode step with the full cache; None for a GPU whose rates nobody told.

    Every beam is a row of both; what speculative decoding gains rests on how often it guesses right, and is not counted.
    """
    machine = Machine.of(device, layout, workload.weight_dtype)
    if machine is None:
        return None
    beams = workload.num_beams
    workload = replace(workload, num_sequences=workload.num_sequences * beams, num_beams=1)
    split = layout.tensor_parallel * layout.pipeline_parallel
    prefill = _prefill(model, workload, work, machine, split)
    decode = _decode(model, workload, layout, machine, work, weight_bytes=weight_bytes, cache_bytes=cache_bytes)
    decode += _reduced(model, workload, layout, machine) + _gathered(model, workload, layout, machine, tokens=1)
    prefill += _gathered(model, workload, layout, machine, tokens=workload.prompt_tokens)
    rate = workload.num_sequences * layout.data_parallel / decode
    flops = FLOPS_PER_PRODUCT * (work.block_weights + work.head_weights)
    return Throughput(
        step_time_s=decode,
        tokens_per_second=rate / beams,
        tokens_per_second_per_gpu=rate / beams / layout.num_gpus,
        mfu=rate / layout.num_gpus * flops / machine.flops,
        prefill_time_s=prefill,
    )


def _prefill(model: Architecture, workload: ServeWorkload, work: ForwardWork, machine: Machine, split: int) -> float:
    batch, length = workload.num_sequences, workload.prompt_tokens
    products = batch * length * FLOPS_PER_PRODUCT * work.block_weights / split / (machine.flops * machine.rates.products)
    attention = work.attention_flops(batch, length) / split / (machine.flops * machine.rates.attention_forward)
    moved = sizes.evaluate(work.moved, sizes.monomials(batch, length)) / split / machine.memory
    return max(
        products + work.num_products * PRODUCT_OVERHEAD_S + attention + moved,
        _host(workload, work, packed=_packed(model, workload)),
    )


def _decode(  # noqa: PLR0913 - a step's time rests on all that describes it
    model: Architecture,
    workload: ServeWorkload,
    layout: Layout,
    machine: Machine,
    work: ForwardWork,
    *,
    weight_bytes: int,
    cache_bytes: int,
) -> float:
    """Return the seconds of one step: the weights that a batch touches and the cache, or the products.

    A token goes through the stages of a pipeline one after another, and each reads its weights for each part of the batch.
    """
    counts = model.parameter_counts()
    routed = workload.num_sequences * (layout.data_parallel if layout.expert_parallel > 1 else 1)
    touched = min(1.0, counts.active / counts.total * routed) if counts.active < counts.total else 1.0
    grows = workload.engine is Engine.TRANSFORMERS and workload.cache is Cache.DYNAMIC
    weights = weight_bytes * touched * layout.pipeline_parallel
    read = (weights + cache_bytes * (CONCATENATED if grows else 1)) / machine.memory
    flops = workload.num_sequences * FLOPS_PER_PRODUCT * (work.block_weights + work.head_weights) / layout.tensor_parallel
    products = flops / (machine.flops * machine.rates.products)
    return (
        max(read, products) + work.launches * machine.kernel_s
        if _graphed(workload)
        else max(read, products, _host(workload, work, packed=_packed(model, workload)))
    )


def _graphed(workload: ServeWorkload) -> bool:
    """Tell whether the engine replays a step that was captured, so that the host launches nothing one by one."""
    return workload.engine is not Engine.TRANSFORMERS and not workload.enforce_eager


def _packed(model: Architecture, workload: ServeWorkload) -> bool:
    """Tell whether the weights are packed, by the request or by the model's own config."""
    return model.quantization is not None or workload.quantization not in {Quantization.NONE, Quantization.FP8}


def _host(workload: ServeWorkload, work: ForwardWork, *, packed: bool) -> float:
    if _graphed(workload):
        return 0.0
    more = QUANTIZED_LAUNCHES * work.num_products if packed else 0
    return (work.launches + more) * (PYTHON_S + LAUNCH_S)


def _gathered(model: Architecture, workload: ServeWorkload, layout: Layout, machine: Machine, *, tokens: int) -> float:
    """Return the seconds in which replicas that share experts gather the tokens of all, and sum what comes of them.

    So many ``tokens`` of each sequence; twice in each layer with experts (vLLM 0.19.0, ``allgather_reducescatter``).
    """
    if layout.expert_parallel == 1 or layout.data_parallel == 1:
        return 0.0
    width = model.spec.hidden_size * workload.weight_dtype.bytes_per_element
    of_all = workload.num_sequences * layout.data_parallel * tokens * width
    layers = sum(count for block, count in model.blocks if block.idle_parameters())
    return 2 * layers * machine.links.gather(of_all, layout.data_parallel, layout.tensor_parallel)


def _reduced(model: Architecture, workload: ServeWorkload, layout: Layout, machine: Machine) -> float:
    """Return the seconds of the two all-reduces of each layer over tensor-parallel ranks."""
    hidden = workload.num_sequences * model.spec.hidden_size * workload.weight_dtype.bytes_per_element
    return 2 * model.num_hidden_layers * machine.links.reduce(hidden, layout.tensor_parallel)
