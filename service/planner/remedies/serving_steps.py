"""Single steps of serving towards less memory on the same GPUs."""

from collections.abc import Iterator
from dataclasses import replace

from service.estimator.backends.registry import get_backend
from service.estimator.model.architecture import Architecture
from service.estimator.model.positions import count_served_positions
from service.estimator.model.weights.scheme import Packing
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Engine, Quantization, ServeWorkload
from service.planner.fit.evaluator import Config

_BUDGETED = frozenset(
    {Engine.VLLM, Engine.SGLANG, Engine.TENSORRT_LLM, Engine.TGI, Engine.LMDEPLOY}
)
"""Engines that fill a fraction of the GPU's memory."""
_FRACTIONS = (0.92, 0.95, 0.97)
"""Fractions above the defaults of engines that still leave room beside the budget; vLLM's guide
names 0.95 (docs, "Optimization and Tuning": increase ``gpu_memory_utilization``).
"""
_BATCHED_TOKENS = (8192, 4096, 2048, 1024, 512)


def quantize_weights(config: Config) -> Iterator[Config]:
    """Serve weights of fewer bits, in formats that the engine reads."""
    match config:
        case (ServeWorkload(quantization=Quantization.NONE) as workload, layout):
            for quantization in get_backend(workload.engine).weight_formats:
                yield replace(workload, quantization=quantization), layout


def leave_packed(model: Architecture, config: Config) -> Iterator[Config]:
    """Serve experts as their checkpoint packs them."""
    match config:
        case (ServeWorkload(quantization=Quantization.NONE) as workload, layout):
            stored = None if model.unpacked is None else model.unpacked.quantization
            if stored is not None and stored.packing is Packing.MXFP4:
                yield replace(workload, quantization=Quantization.MXFP4), layout


def reduce_sequences(config: Config) -> Iterator[Config]:
    """Serve fewer sequences at once.

    A sixteenth less each time, and from there half as many each time.
    """
    match config:
        case (ServeWorkload() as workload, layout):
            halves = {
                workload.num_sequences >> power
                for power in range(5, workload.num_sequences.bit_length())
            }
            for num_sequences in sorted(
                {workload.num_sequences * share // 16 for share in range(1, 16)} | halves - {0},
                reverse=True,
            ):
                if num_sequences:
                    yield replace(workload, num_sequences=num_sequences), layout


def use_fp8_cache(config: Config) -> Iterator[Config]:
    """Use an fp8 KV cache."""
    match config:
        case (ServeWorkload() as workload, layout):
            has_fp8 = DType.FP8 in get_backend(workload.engine).cache_dtypes
            if has_fp8 and workload.kv_cache_dtype is not DType.FP8:
                yield replace(workload, kv_cache_dtype=DType.FP8), layout


def shorten_sequences(model: Architecture, config: Config) -> Iterator[Config]:
    """Limit the engine to shorter sequences, at last to the requested ones."""
    match config:
        case (ServeWorkload() as workload, layout):
            backend = get_backend(workload.engine)
            if not backend.sized_by_length:
                return
            tokens = workload.prompt_tokens + workload.output_tokens
            positions = count_served_positions(model.spec, workload.engine)
            positions = 0 if backend.follows_request else positions
            longest = workload.resolve_max_model_len(positions)
            length = longest // 2
            while length > tokens:
                yield replace(workload, max_model_len=length), layout
                length //= 2
            if longest > tokens:
                yield replace(workload, max_model_len=tokens), layout


def raise_memory_fraction(config: Config) -> Iterator[Config]:
    """Give the engine more of the GPU's memory."""
    match config:
        case (
            ServeWorkload(engine=engine, kv_pool_bytes=None, kv_pool_blocks=None) as workload,
            layout,
        ) if engine in _BUDGETED:
            for fraction in _FRACTIONS:
                if fraction > (workload.gpu_memory_fraction or 0):
                    yield replace(workload, gpu_memory_fraction=fraction), layout


def limit_scheduled_sequences(config: Config) -> Iterator[Config]:
    """Prepare the engine for as many sequences as are requested."""
    match config:
        case (ServeWorkload(engine=engine) as workload, layout) if engine in _BUDGETED:
            scheduled = workload.max_num_sequences
            if scheduled is None or scheduled > workload.num_sequences:
                yield replace(workload, max_num_sequences=workload.num_sequences), layout


def limit_batched_tokens(config: Config) -> Iterator[Config]:
    """Let a pass of the engine read fewer tokens at once."""
    match config:
        case (ServeWorkload(engine=engine) as workload, layout) if engine in _BUDGETED:
            for tokens in _BATCHED_TOKENS:
                if tokens < (workload.max_num_batched_tokens or _BATCHED_TOKENS[0] + 1):
                    yield replace(workload, max_num_batched_tokens=tokens), layout


def skip_cuda_graphs(config: Config) -> Iterator[Config]:
    """Run every step eagerly: no CUDA graphs are kept."""
    match config:
        case (ServeWorkload(enforce_eager=False, engine=engine) as workload, layout):
            if get_backend(engine).counts_cuda_graphs:
                yield replace(workload, enforce_eager=True), layout


def limit_items(model: Architecture, config: Config) -> Iterator[Config]:
    """Profile vLLM's vision tower with no more than the load has.

    Videos are left out first, then images beyond those of a prompt.
    """
    match config:
        case (ServeWorkload(engine=Engine.VLLM, inputs=inputs) as workload, layout):
            if not getattr(model.spec, "vision_hidden_size", 0):
                return
            images = inputs.num_images if inputs is not None else workload.num_images or 0
            limited = workload
            if not (inputs is not None and inputs.videos) and workload.max_videos_per_prompt != 0:
                limited = replace(workload, max_videos_per_prompt=0)
                yield limited, layout
            most = workload.max_images_per_prompt
            if most is None or most > images:
                yield replace(limited, max_images_per_prompt=images), layout


def drop_draft(config: Config) -> Iterator[Config]:
    """Serve without a draft model."""
    match config:
        case (ServeWorkload(speculative=draft) as workload, layout) if draft is not None:
            yield replace(workload, speculative=None), layout
