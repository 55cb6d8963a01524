"""Requests as serving workloads of the estimator."""

from typing import Any

from msgspec import UnsetType

from service.contract.schemas.serving import ServeRequest
from service.contract.to_question.defaults import apply_defaults, copy_set_fields
from service.contract.to_question.drafts import read_speculative
from service.contract.to_question.inputs import read_sequence
from service.estimator.backends.registry import get_backend
from service.estimator.values.backend import Backend
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.generation import Client, Sampling
from service.estimator.values.workload import (
    Attention,
    Cache,
    Engine,
    Quantization,
    ServeWorkload,
)

SERVE_DEFAULTS: dict[str, Any] = {
    "engine": Engine.TRANSFORMERS,
    "weight_dtype": DType.BF16,
    "output_tokens": 0,
    "num_beams": 1,
    "attention": Attention.SDPA,
    "cache": Cache.DYNAMIC,
    "client": Client.GENERATE,
    "sampling": Sampling.GREEDY,
}
_CACHE_LINE, _ATTENTION_LINE = "workload.cache = ", "workload.attention = "
_CLIENT_LINES = ("workload.client = ", "workload.sampling = ")
_WEIGHT_DTYPES = frozenset({DType.FP32, DType.BF16, DType.FP16})
_SERVE_OPTIONAL = (
    "num_images",
    "image_tokens",
    "engine_version",
    "max_model_len",
    "max_num_batched_tokens",
    "max_num_sequences",
    "gpu_memory_fraction",
    "kv_pool_bytes",
    "kv_pool_blocks",
    "kv_pool_tokens",
    "enforce_eager",
    "allocator",
    "gpu_layers",
    "cpu_moe_layers",
    "cache_type",
    "cpu_offload_gb",
    "max_loras",
    "max_lora_rank",
    "max_images_per_prompt",
    "max_videos_per_prompt",
    "state_dtype",
)


def read_serving(request: ServeRequest) -> tuple[ServeWorkload, list[str]]:
    """Return the workload of a replica and the defaults it uses."""
    weights = request.weight_dtype if request.weight_dtype in _WEIGHT_DTYPES else DType.BF16
    # An engine that is told nothing about its cache keeps it in the dtype of the weights.
    values, assumptions = apply_defaults(
        request, SERVE_DEFAULTS | {"kv_cache_dtype": weights}, "workload"
    )
    backend = get_backend(values["engine"])
    unused_lines = _list_unused_lines(backend)
    assumptions = [line for line in assumptions if not line.startswith(unused_lines)]
    if isinstance(request.engine_version, UnsetType) and backend.newest_release is not None:
        assumptions.append(f"workload.engine_version = {backend.newest_release}")
    values["quantization"] = (
        Quantization.NONE if isinstance(request.quantization, UnsetType) else request.quantization
    )
    if request.weight_dtype is DType.FP8:
        if values["quantization"] not in {Quantization.NONE, Quantization.FP8}:
            message = (
                "weight_dtype fp8 is an alias of quantization fp8, but quantization is "
                f"{values['quantization'].value}"
            )
            raise InvalidInputError(message, field="workload.weight_dtype")
        values |= {"quantization": Quantization.FP8, "weight_dtype": DType.BF16}
    values["unquantised"] = request.quantization is Quantization.NONE
    values |= copy_set_fields(request, _SERVE_OPTIONAL)
    if not isinstance(request.tensor_split, UnsetType):
        values["tensor_split"] = tuple(request.tensor_split)
    values |= read_sequence(request, "prompt_tokens")
    values["speculative"], origins = read_speculative(request.speculative)
    assumptions += origins
    return ServeWorkload(
        num_sequences=request.num_sequences,
        **values,
    ), assumptions


def _list_unused_lines(backend: Backend) -> tuple[str, ...]:
    """Return the beginnings of defaults that a backend ignores."""
    cache, attention = (
        (_CACHE_LINE,) * backend.owns_cache,
        (_ATTENTION_LINE,) * backend.owns_kernels,
    )
    return (*cache, *attention, *(_CLIENT_LINES * backend.owns_cache))
