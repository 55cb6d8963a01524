"""Steps towards less memory on the GPUs, with weights elsewhere."""

from collections.abc import Iterator
from dataclasses import replace

from service.estimator.model.architecture import Architecture
from service.estimator.values.dtypes import CacheType
from service.estimator.values.units import GIB, ceil_div
from service.estimator.values.workload import Engine, Quantization, ServeWorkload
from service.planner.fit.evaluator import Config

_FILE_TYPES = (
    Quantization.Q8_0,
    Quantization.Q6_K,
    Quantization.Q5_K_M,
    Quantization.Q4_K_M,
    Quantization.Q4_0,
)
"""Mixtures of GGUF files, each of fewer bits than the one before."""
_CACHE_TYPES = (CacheType.Q8_0, CacheType.Q4_0)
_SHARES = 64
"""Parts of the weights, of which ever more are left to the host."""


def use_smaller_file(config: Config) -> Iterator[Config]:
    """Serve a file whose weights have fewer bits."""
    match config:
        case (ServeWorkload(engine=Engine.LLAMA_CPP, quantization=requested) as workload, layout):
            if requested in _FILE_TYPES:
                for smaller in _FILE_TYPES[_FILE_TYPES.index(requested) + 1 :]:
                    yield replace(workload, quantization=smaller), layout


def use_cache_of_blocks(config: Config) -> Iterator[Config]:
    """Keep keys and values in blocks of fewer bits."""
    match config:
        case (ServeWorkload(engine=Engine.LLAMA_CPP, cache_type=None) as workload, layout):
            for cache_type in _CACHE_TYPES:
                yield replace(workload, cache_type=cache_type), layout


def move_experts_to_host(model: Architecture, config: Config) -> Iterator[Config]:
    """Leave the experts of ever more layers to the host."""
    match config:
        case (ServeWorkload(engine=Engine.LLAMA_CPP) as workload, layout):
            if model.spec.num_experts:
                for number in range(
                    (workload.cpu_moe_layers or 0) + 1, model.num_hidden_layers + 1
                ):
                    yield replace(workload, cpu_moe_layers=number), layout


def keep_weights_on_host(model: Architecture, config: Config) -> Iterator[Config]:
    """Leave ever more GiB of each GPU's weights to the host.

    vLLM and SGLang keep as many of the layers there, up to all of them.
    """
    match config:
        case (ServeWorkload(engine=Engine.VLLM | Engine.SGLANG) as workload, layout):
            ranks = layout.tensor_parallel * layout.pipeline_parallel
            weights = model.counts.total * workload.weight_dtype.bytes_per_element
            most = ceil_div(weights, ranks * GIB)
            for size in sorted(
                {ceil_div(most * share, _SHARES) for share in range(1, _SHARES + 1)}
            ):
                if size > (workload.cpu_offload_gb or 0):
                    yield replace(workload, cpu_offload_gb=float(size)), layout


def move_layers_to_host(model: Architecture, config: Config) -> Iterator[Config]:
    """Leave ever more of the first layers to the host."""
    match config:
        case (ServeWorkload(engine=Engine.LLAMA_CPP) as workload, layout):
            requested, highest = workload.gpu_layers, model.num_hidden_layers + 1
            for number in range(
                (highest if requested is None else min(requested, highest)) - 1, -1, -1
            ):
                yield replace(workload, gpu_layers=number), layout
