"""Rules for serving models with an encoder."""

from service.estimator.memory.image_inputs import check_images
from service.estimator.memory.lengths import check_half, count_start_tokens
from service.estimator.memory.model_limits import check_attention, check_sequence
from service.estimator.model.architecture import Architecture
from service.estimator.model.trees.encoder_decoder import EncoderDecoder
from service.estimator.rules.layouts import check_layout
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.refusals import check_modelled
from service.estimator.values.workload import Cache, Engine, Quantization, ServeWorkload

_ABSENT = (
    "engine_version",
    "max_model_len",
    "max_num_batched_tokens",
    "max_num_sequences",
    "gpu_memory_fraction",
)


def check_encoding(model: Architecture, workload: ServeWorkload, layout: Layout) -> None:
    """Raise for serving workloads of encoder models without an answer.

    Raises NotModelledError or InvalidInputError.
    """
    check_modelled(workload.engine, "workload.engine", (Engine.TRANSFORMERS,))
    check_modelled(workload.quantization, "workload.quantization", (Quantization.NONE,))
    check_modelled(
        workload.weight_dtype, "workload.weight_dtype", (DType.BF16, DType.FP16, DType.FP32)
    )
    check_modelled(workload.cache, "workload.cache", (Cache.DYNAMIC,))
    for name in _ABSENT:
        if getattr(workload, name) is not None:
            what = f"{name} of {model.family}"
            raise NotModelledError(
                what, field=f"workload.{name}", modelled=[f"requests without {name}"]
            )
    if workload.enforce_eager:
        raise NotModelledError(
            "enforce_eager true", field="workload.enforce_eager", modelled=["enforce_eager false"]
        )
    if workload.kv_cache_dtype is not workload.weight_dtype:
        what = (
            f"kv_cache_dtype {workload.kv_cache_dtype.value} beside {workload.weight_dtype.value} "
            "weights"
        )
        raise NotModelledError(
            what, field="workload.kv_cache_dtype", modelled=["the dtype of the weights"]
        )
    if workload.num_beams > 1:
        raise NotModelledError(
            f"beam search of {model.family}", field="workload.num_beams", modelled=["1"]
        )
    check_images(model, workload)
    check_sequence(model, workload.prompt_tokens, field="workload.prompt_tokens")
    check_attention(model, workload.attention)
    _check_ranks(model, layout)
    if not isinstance(model, EncoderDecoder):
        _check_encoder(model, workload)
        return
    check_half(model, workload.weight_dtype, "workload.weight_dtype")
    tokens, positions = (
        count_start_tokens(model, workload) + workload.output_tokens,
        model.spec.max_position_embeddings,
    )
    if not model.spec.rotary and tokens > positions:
        message = (
            f"{tokens} decoder tokens, but {model.family} has learned positions for {positions}"
        )
        raise InvalidInputError(message, field="workload.output_tokens")


def _check_encoder(model: Architecture, workload: ServeWorkload) -> None:
    if workload.output_tokens:
        message = (
            f"output_tokens is {workload.output_tokens}, but {model.family} is an encoder, which "
            "generates nothing; say 0"
        )
        raise InvalidInputError(message, field="workload.output_tokens")


def _check_ranks(model: Architecture, layout: Layout) -> None:
    if layout.tensor_parallel > 1:
        what = f"tensor_parallel {layout.tensor_parallel} of {model.family} in serving"
        raise NotModelledError(what, field="layout.tensor_parallel", modelled=["1"])
    check_layout(model, layout)
    if layout.zero_stage:
        message = (
            f"zero_stage is {layout.zero_stage}, but serving has no optimizer to shard; leave it "
            "at 0"
        )
        raise InvalidInputError(message, field="layout.zero_stage")
