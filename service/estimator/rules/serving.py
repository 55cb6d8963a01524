"""Rules for serving workloads."""

from service.estimator.memory.image_inputs import check_images
from service.estimator.memory.model_limits import check_attention, check_sequence
from service.estimator.model.adapters.frozen import TRAINABLE
from service.estimator.model.architecture import Architecture
from service.estimator.model.quantization.weights import select_scheme
from service.estimator.model.weights.scheme import Packing
from service.estimator.rules.encoding import check_encoding
from service.estimator.rules.engines import WEIGHTS, check_format
from service.estimator.rules.layouts import check_layout
from service.estimator.rules.sharing import check_shared_codes
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.refusals import check_modelled
from service.estimator.values.workload import Cache, Engine, Quantization, ServeWorkload

_FORMATS = tuple(word for word in Quantization if word in WEIGHTS)


def check_serving(model: Architecture, workload: ServeWorkload, layout: Layout) -> None:
    """Raise for a serving workload that has no answer yet.

    Raises NotModelledError or InvalidInputError.
    """
    if not model.shifts_labels:
        check_encoding(model, workload, layout)
        return
    check_modelled(workload.engine, "workload.engine", (Engine.TRANSFORMERS,))
    _check_quantization(model, workload)
    check_modelled(workload.cache, "workload.cache", (Cache.DYNAMIC, Cache.STATIC))
    check_modelled(
        workload.weight_dtype, "workload.weight_dtype", (DType.BF16, DType.FP16, DType.FP32)
    )
    if workload.kv_cache_dtype is not workload.weight_dtype:
        what = (
            f"kv_cache_dtype {workload.kv_cache_dtype.value} beside {workload.weight_dtype.value} "
            "weights"
        )
        raise NotModelledError(
            what, field="workload.kv_cache_dtype", modelled=["the dtype of the weights"]
        )
    _check_engine_options(workload)
    check_images(model, workload)
    check_sequence(
        model, workload.prompt_tokens + workload.output_tokens, field="workload.prompt_tokens"
    )
    check_attention(model, workload.attention)
    check_layout(model, layout)
    if layout.tensor_parallel > 1 and workload.quantization is not Quantization.NONE:
        what = f"quantization {workload.quantization.value} of layers that ranks share"
        raise NotModelledError(
            what, field="workload.quantization", modelled=["none", "engine vllm"]
        )
    if layout.sequence_parallel:
        raise NotModelledError(
            "sequence_parallel in serving", field="layout.sequence_parallel", modelled=["false"]
        )
    if layout.zero_stage:
        message = (
            f"zero_stage is {layout.zero_stage}, but serving has no optimizer to shard; leave it "
            "at 0"
        )
        raise InvalidInputError(message, field="layout.zero_stage")


def _check_quantization(model: Architecture, workload: ServeWorkload) -> None:
    """Raise for formats whose products have no term on transformers."""
    check_modelled(workload.quantization, "workload.quantization", _FORMATS)
    check_format(model, workload)
    scheme = select_scheme(workload.quantization, model)
    check_shared_codes(model, quantised=scheme is not None, field="workload.quantization")
    if (
        scheme is not None
        and scheme.packing not in TRAINABLE
        and scheme.packing is not Packing.MXFP4
    ):
        field = (
            "workload.quantization"
            if workload.quantization is not Quantization.NONE
            else "model.quantization_config"
        )
        raise NotModelledError(
            f"products with {scheme.packing.value} weights", field=field, modelled=[*TRAINABLE]
        )


def _check_engine_options(workload: ServeWorkload) -> None:
    """Raise for options that change nothing on transformers.

    A request with one expects an answer that depends on it.
    """
    for name in ("gpu_memory_fraction", "max_num_batched_tokens", "max_num_sequences"):
        if getattr(workload, name) is not None:
            raise NotModelledError(
                name, field=f"workload.{name}", modelled=[f"requests without {name}"]
            )
    if workload.enforce_eager:
        raise NotModelledError(
            "enforce_eager true", field="workload.enforce_eager", modelled=["enforce_eager false"]
        )
    if workload.max_model_len is None:
        return
    tokens = workload.prompt_tokens + workload.output_tokens
    if workload.max_model_len < tokens:
        message = (
            f"max_model_len is {workload.max_model_len}, but prompt_tokens + output_tokens is "
            f"{tokens}; at least {tokens}"
        )
        raise InvalidInputError(message, field="workload.max_model_len")
    if workload.cache is not Cache.STATIC:
        what = f"max_model_len of a {workload.cache.value} cache"
        raise NotModelledError(what, field="workload.max_model_len", modelled=["cache static"])
