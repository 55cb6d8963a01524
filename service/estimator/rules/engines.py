"""Checks of workloads against what serving engines can run.

They refuse too what has no term for it.
"""

from service.estimator.memory.model_limits import check_sequence
from service.estimator.model.architecture import Architecture
from service.estimator.model.quantization.weights import select_scheme
from service.estimator.model.trees.encoder_decoder import EncoderDecoder
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.refusals import check_modelled
from service.estimator.values.workload import Cache, Engine, Quantization, ServeWorkload

_ONE_WAY = (("context_parallel", "1"), ("zero_stage", "0"), ("virtual_pipeline_stages", "1"))


WEIGHTS = frozenset(
    {
        Quantization.NONE,
        Quantization.INT8,
        Quantization.NF4,
        Quantization.GPTQ_INT4,
        Quantization.AWQ_INT4,
        Quantization.FP8,
        Quantization.MXFP4,
    },
)
"""Formats of weights that engines in Python load; the others are those of GGUF files."""


def check_engine(
    model: Architecture,
    workload: ServeWorkload,
    layout: Layout,
    *,
    formats: frozenset[Quantization] = WEIGHTS,
) -> None:
    """Raise an error for a question that an engine cannot answer.

    It is NotModelledError or InvalidInputError; ``formats`` are those of the engine's weights.
    """
    if workload.quantization not in formats:
        check_modelled(
            workload.quantization,
            "workload.quantization",
            tuple(word for word in Quantization if word in formats),
        )
    check_format(model, workload)
    if not model.shifts_labels:
        kind = (
            "a model with an encoder"
            if isinstance(model, EncoderDecoder)
            else "which generates no tokens"
        )
        feature = f"{workload.engine.value} with {model.family}, {kind}"
        raise NotModelledError(
            feature, field="workload.engine", modelled=["engine transformers", "decoders of text"]
        )
    if model.recurrent:
        feature = (
            f"{workload.engine.value} with {model.family}, whose layers keep a state for each "
            "sequence"
        )
        raise NotModelledError(
            feature, field="workload.engine", modelled=["decoders with attention in every layer"]
        )
    for name in ("num_images", "image_tokens"):
        if getattr(workload, name) is not None:
            feature = f"images in the prompts of {workload.engine.value}"
            raise NotModelledError(
                feature, field=f"workload.{name}", modelled=["engine transformers", "text alone"]
            )
    check_modelled(
        workload.weight_dtype, "workload.weight_dtype", (DType.BF16, DType.FP16, DType.FP32)
    )
    check_modelled(
        workload.kv_cache_dtype,
        "workload.kv_cache_dtype",
        tuple(dict.fromkeys(_list_cache_dtypes(workload))),
    )
    if workload.cache is Cache.STATIC:
        message = (
            f"{workload.engine.value} lays its cache out by itself when it starts; leave cache "
            "out, or say paged"
        )
        raise InvalidInputError(message, field="workload.cache")
    if workload.num_beams > 1:
        raise NotModelledError("beam search", field="workload.num_beams", modelled=["1"])
    _check_one_way(layout)


def _list_cache_dtypes(workload: ServeWorkload) -> tuple[DType, ...]:
    """Return the dtypes that keys and values may have.

    llama.cpp's are 16 bits whatever its weights are, unless quantised.
    """
    if workload.engine is Engine.LLAMA_CPP:
        return (workload.weight_dtype, DType.FP16, DType.BF16)
    return (workload.weight_dtype, DType.FP8)


def check_format(model: Architecture, workload: ServeWorkload) -> None:
    """Raise InvalidInputError for a quantisation that contradicts the config.

    The config has quantised the weights already.
    """
    scheme, quantization = model.quantization, workload.quantization
    if (
        scheme is None
        or quantization not in WEIGHTS
        or (quantization is Quantization.NONE and not workload.unquantised)
    ):
        return
    if quantization is Quantization.NONE or select_scheme(quantization, model) is not scheme:
        message = (
            f"quantization is {quantization.value}, but the config packs its weights as "
            f"{scheme.packing.value}; leave quantization out to serve them so, or ask for the "
            "model in 16 bits, whose config has no quantization_config"
        )
        raise InvalidInputError(message, field="workload.quantization")


def _check_one_way(layout: Layout) -> None:
    """Raise NotModelledError for layouts that no engine has a term for."""
    for name, modelled in _ONE_WAY:
        if getattr(layout, name) != int(modelled):
            raise NotModelledError(
                f"{name} {getattr(layout, name)} in serving",
                field=f"layout.{name}",
                modelled=[modelled],
            )
    if layout.sequence_parallel:
        raise NotModelledError(
            "sequence_parallel in serving", field="layout.sequence_parallel", modelled=["false"]
        )
    ranks = layout.tensor_parallel * (layout.data_parallel if layout.expert_parallel > 1 else 1)
    split_by, remainder = divmod(ranks, layout.expert_parallel)
    if remainder or (layout.expert_tensor_parallel or layout.tensor_parallel) != split_by:
        _refuse_spread(layout, ranks)


def _refuse_spread(layout: Layout, ranks: int) -> None:
    """Refuse experts that are not on all ranks of a replica once."""
    spread = f"{layout.expert_parallel} x {layout.expert_tensor_parallel or layout.tensor_parallel}"
    message = (
        f"experts stand on each of the {ranks} tensor x data ranks once, so that expert_parallel x "
        f"expert_tensor_parallel is {ranks}, not {spread}; leave expert_tensor_parallel out, and "
        f"say an expert_parallel that divides {ranks}"
    )
    raise InvalidInputError(message, field="layout.expert_parallel")


def resolve_max_model_len(model: Architecture, workload: ServeWorkload) -> int:
    """Return ``max_model_len``.

    It is the requested one, or as many positions as the model has.
    """
    tokens = workload.prompt_tokens + workload.output_tokens
    max_model_len = workload.max_model_len or model.spec.max_position_embeddings or tokens
    if max_model_len < tokens:
        message = (
            f"max_model_len is {max_model_len}, but prompt_tokens + output_tokens is {tokens}; at "
            f"least {tokens}"
        )
        raise InvalidInputError(message, field="workload.max_model_len")
    check_sequence(model, max_model_len, field="workload.max_model_len")
    return max_model_len
