"""Requests as workloads and layouts of the estimator.

Every default is named, nothing unknown is dropped.
"""

import json
from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import Any

from msgspec import UNSET, UnsetType

from service.catalog.models import load_config, resolve_model
from service.contract.schemas.workload import (
    DraftModel,
    LayoutRequest,
    LoraRequest,
    OffloadRequest,
    PrecisionRequest,
    SelectiveRequest,
    ServeRequest,
    SpeculativeRequest,
    TrainRequest,
    WorkloadRequest,
)
from service.estimator.backends.registry import get_backend
from service.estimator.values.backend import Backend
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import FULLY_SHARDED, MAX_ZERO_STAGE, Layout, Sharding
from service.estimator.values.precision import POLICIES, Precision
from service.estimator.values.workload import (
    Attention,
    Cache,
    Checkpointing,
    Engine,
    Framework,
    Lora,
    Loss,
    Method,
    Offload,
    Quantization,
    ServeWorkload,
    Speculative,
    TrainWorkload,
    Workload,
)
from service.formats.quantities import parse_bytes

ADAPTER_METHODS = frozenset({Method.LORA, Method.QLORA})

TRAIN_DEFAULTS: dict[str, Any] = {
    "framework": Framework.TRANSFORMERS,
    "method": Method.FULL,
    "precision": "bf16_mixed",
    "optimizer": "adamw",
    "micro_batch_size": 1,
    "gradient_accumulation_steps": 1,
    "activation_checkpointing": Checkpointing.NONE,
    "attention": Attention.SDPA,
    "loss": Loss.FULL_LOGITS,
}
SERVE_DEFAULTS: dict[str, Any] = {
    "engine": Engine.TRANSFORMERS,
    "weight_dtype": DType.BF16,
    "output_tokens": 0,
    "num_beams": 1,
    "attention": Attention.SDPA,
    "cache": Cache.DYNAMIC,
}
_CACHE_LINE, _ATTENTION_LINE = "workload.cache = ", "workload.attention = "
LAYOUT_DEFAULTS: dict[str, Any] = {
    "data_parallel": 1,
    "tensor_parallel": 1,
    "pipeline_parallel": 1,
    "context_parallel": 1,
    "expert_parallel": 1,
    "zero_stage": 0,
    "gpus_per_node": 8,
}
LORA_DEFAULTS: dict[str, Any] = {
    "rank": 16,
    "target_modules": "all-linear",
    "dtype": DType.FP32,
    "variant": "lora",
}

_WEIGHT_DTYPES = frozenset({DType.FP32, DType.BF16, DType.FP16})

_TRAIN_OPTIONAL = (
    "keeps_logits",
    "padding_mask",
    "reentrant_checkpointing",
    "gradient_clipping",
    "allocator",
    "fp32_norms_and_head",
    "double_quantization",
    "optimizer_in_backward",
    "compile",
    "deterministic",
    "float8",
    "framework_version",
    "decoder_length",
    "num_images",
    "image_tokens",
    "audio_frames",
    "num_tokens",
)
_SERVE_OPTIONAL = (
    "num_images",
    "image_tokens",
    "engine_version",
    "max_model_len",
    "max_num_batched_tokens",
    "max_num_sequences",
    "gpu_memory_fraction",
    "enforce_eager",
    "allocator",
)
_LAYOUT_OPTIONAL = (
    "sequence_parallel",
    "reshard_after_forward",
    "expert_tensor_parallel",
    "virtual_pipeline_stages",
    "shard_embeddings_separately",
    "shard_size",
    "network_bytes_per_second",
)


def read_workload(request: WorkloadRequest) -> tuple[Workload, list[str]]:
    """Return the workload and the defaults it uses.

    Each default is a line.
    """
    return _read_train(request) if isinstance(request, TrainRequest) else _read_serve(request)


@lru_cache(1024)
def read_layout(
    request: LayoutRequest | UnsetType, *, serves: bool = False
) -> tuple[Layout, tuple[str, ...]]:
    """Return the layout and the defaults it uses.

    Each default is a line. Few layouts are asked about, and each often, so they are cached. A named
    stage means DeepSpeed unless another sharding is named; FSDP shards everything, which is stage
    3. Serving spreads experts over all tensor x data ranks: as many of them split one expert as are
    left.
    """
    request = LayoutRequest() if isinstance(request, UnsetType) else request
    is_fully_sharded = request.sharding in FULLY_SHARDED
    values, assumptions = _apply_defaults(
        request,
        LAYOUT_DEFAULTS | ({"zero_stage": MAX_ZERO_STAGE} if is_fully_sharded else {}),
        "layout",
    )
    if isinstance(request.sharding, UnsetType):
        values["sharding"] = (
            Sharding.DDP if isinstance(request.zero_stage, UnsetType) else Sharding.DEEPSPEED
        )
        assumptions.append(f"layout.sharding = {values['sharding']}")
    else:
        values["sharding"] = request.sharding
    for name in ("host_memory_bytes", "nvme_bytes"):
        if not isinstance(text := getattr(request, name), UnsetType):
            values[name] = parse_bytes(text, field=f"layout.{name}")
    values |= _copy_set_fields(request, _LAYOUT_OPTIONAL)
    if serves and values["expert_parallel"] > 1 and "expert_tensor_parallel" not in values:
        values["expert_tensor_parallel"] = _count_expert_ranks(values)
    if values.get("expert_tensor_parallel") == values["tensor_parallel"]:
        del values["expert_tensor_parallel"]
    return Layout(**values), tuple(assumptions)


def _count_expert_ranks(values: Mapping[str, int]) -> int:
    """Return the number of ranks that split one served expert.

    Refuses experts that do not stand on all ranks of a server.
    """
    tensor, data, spread = (
        values["tensor_parallel"],
        values["data_parallel"],
        values["expert_parallel"],
    )
    ranks_per_expert, remainder = divmod(tensor * data, spread)
    if remainder:
        ranks = f"tensor_parallel {tensor} x data_parallel {data} = {tensor * data}"
        message = (
            f"expert_parallel {spread} does not divide the ranks that experts are spread over: "
            f"{ranks}"
        )
        raise InvalidInputError(message, field="layout.expert_parallel")
    return ranks_per_expert


def _read_train(request: TrainRequest) -> tuple[TrainWorkload, list[str]]:
    values, assumptions = _apply_defaults(request, TRAIN_DEFAULTS, "workload")
    values["precision"] = _read_precision(values["precision"], assumptions)
    if isinstance(checkpointing := values["activation_checkpointing"], SelectiveRequest):
        values |= {
            "activation_checkpointing": Checkpointing.SELECTIVE,
            "selective_every": checkpointing.selective,
        }
    values["offload"] = _read_offload(request.offload, assumptions)
    values["lora"] = _read_lora(request.lora, values["method"], assumptions)
    if not isinstance(request.peft, UnsetType):
        values["peft"] = request.peft.type
    if not isinstance(request.frozen, UnsetType):
        values["frozen"] = tuple(request.frozen)
    values |= _copy_set_fields(request, _TRAIN_OPTIONAL)
    return TrainWorkload(sequence_length=request.sequence_length, **values), assumptions


def _read_serve(request: ServeRequest) -> tuple[ServeWorkload, list[str]]:
    weights = request.weight_dtype if request.weight_dtype in _WEIGHT_DTYPES else DType.BF16
    # An engine that is told nothing about its cache keeps it in the dtype of the weights.
    values, assumptions = _apply_defaults(
        request, SERVE_DEFAULTS | {"kv_cache_dtype": weights}, "workload"
    )
    unused_lines = _list_unused_lines(get_backend(values["engine"]))
    assumptions = [line for line in assumptions if not line.startswith(unused_lines)]
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
    values |= _copy_set_fields(request, _SERVE_OPTIONAL)
    values["speculative"] = _read_speculative(request.speculative)
    return ServeWorkload(
        num_sequences=request.num_sequences, prompt_tokens=request.prompt_tokens, **values
    ), assumptions


def _list_unused_lines(backend: Backend) -> tuple[str, ...]:
    """Return the beginnings of defaults that a backend ignores."""
    cache, attention = (
        (_CACHE_LINE,) * backend.owns_cache,
        (_ATTENTION_LINE,) * backend.owns_kernels,
    )
    return (*cache, *attention)


def _read_speculative(request: SpeculativeRequest | UnsetType) -> Speculative | None:
    if isinstance(request, UnsetType):
        return None
    if isinstance(request.draft, UnsetType):
        return Speculative(num_tokens=request.num_tokens)
    if isinstance(request.draft, DraftModel):
        return Speculative(
            num_tokens=request.num_tokens,
            config=json.dumps(request.draft.hf_config, sort_keys=True),
        )
    entry = resolve_model(request.draft, field="workload.speculative.draft")
    return Speculative(
        num_tokens=request.num_tokens,
        config=json.dumps(load_config(entry), sort_keys=True),
        name=entry.name,
    )


def _apply_defaults(
    request: object, defaults: Mapping[str, Any], prefix: str
) -> tuple[dict[str, Any], list[str]]:
    values: dict[str, Any] = {}
    assumptions: list[str] = []
    for name, default in defaults.items():
        value = getattr(request, name)
        if value is UNSET:
            value = default
            assumptions.append(_format_assumption(prefix, name, default))
        values[name] = value
    return values, assumptions


@lru_cache(1024)
def _format_assumption(prefix: str, name: str, default: Hashable) -> str:
    return f"{prefix}.{name} = {'none' if default is None else default}"


def _read_precision(precision: str | PrecisionRequest, assumptions: list[str]) -> Precision:
    if isinstance(precision, str):
        return POLICIES[precision]
    defaults: dict[str, Any] = {
        "compute_dtype": precision.param_dtype,
        "grad_dtype": precision.param_dtype,
        "optimizer_dtype": precision.master_dtype or precision.param_dtype,
        "master_dtype": None,
        "main_grad_dtype": None,
        "reduce_dtype": precision.grad_dtype or precision.param_dtype,
    }
    values, filled = _apply_defaults(precision, defaults, "workload.precision")
    assumptions += filled
    return Precision(
        name="custom",
        param_dtype=precision.param_dtype,
        autocast=precision.autocast,
        main_grad_persistent=precision.main_grad_persistent,
        **values,
    )


def _read_offload(request: OffloadRequest | UnsetType, assumptions: list[str]) -> Offload:
    if isinstance(request, UnsetType):
        assumptions.append("workload.offload = none")
        return Offload()
    return Offload(
        optimizer=request.optimizer, parameters=request.parameters, activations=request.activations
    )


def _read_lora(
    request: LoraRequest | UnsetType, method: Method, assumptions: list[str]
) -> Lora | None:
    if isinstance(request, UnsetType) and method not in ADAPTER_METHODS:
        return None
    values, defaults = _apply_defaults(request or LoraRequest(), LORA_DEFAULTS, "workload.lora")
    assumptions += defaults
    targets = values.pop("target_modules")
    return Lora(targets=None if targets == "all-linear" else tuple(targets), **values)


def _copy_set_fields(request: object, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the named fields that the request has.

    Their absence needs no line among the assumptions.
    """
    return {
        name: value for name in names if not isinstance(value := getattr(request, name), UnsetType)
    }
