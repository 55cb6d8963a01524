"""What is modelled so far: everything else is refused in words, never guessed."""

from service.estimator.architecture import Architecture
from service.estimator.dtypes import DType
from service.estimator.errors import InvalidInputError, NotModelledError
from service.estimator.gathering import gathering
from service.estimator.layout import Layout
from service.estimator.optimizers import optimizer_named
from service.estimator.workload import (
    Attention,
    Cache,
    Checkpointing,
    Engine,
    Framework,
    Loss,
    Method,
    Offload,
    Quantization,
    ServeWorkload,
    TrainWorkload,
)

_TRAINED_DTYPES = (DType.FP32, DType.BF16, DType.FP16)


def check_training(model: Architecture, workload: TrainWorkload, layout: Layout) -> None:
    """Raise NotModelledError or InvalidInputError for a training workload that has no answer yet."""
    if model.idle_tower:
        what = f"training of {model.family} with its tower"
        raise NotModelledError(what, field="workload.task", modelled=["serve", "train of its text_config alone"])
    _only(workload.framework, "workload.framework", (Framework.TRANSFORMERS,))
    _only(workload.method, "workload.method", (Method.FULL, Method.LORA))
    _only(workload.loss, "workload.loss", (Loss.FULL_LOGITS,))
    _only(workload.activation_checkpointing, "workload.activation_checkpointing", (Checkpointing.NONE, Checkpointing.FULL))
    optimizer_named(workload.optimizer)
    if workload.offload != Offload():
        raise NotModelledError("offload", field="workload.offload", modelled=["none"])
    _check_adapters(model, workload)
    _check_sequence(model, workload.sequence_length)
    _check_attention(model, workload.attention)
    _check_precision(model, workload, layout)
    _check_layout(model, layout)


def check_serving(model: Architecture, workload: ServeWorkload, layout: Layout) -> None:
    """Raise NotModelledError or InvalidInputError for a serving workload that has no answer yet."""
    if not model.shifts_labels:
        raise NotModelledError(f"serving {model.family}, an encoder without a cache", field="model", modelled=["training"])
    if model.recurrent:
        what = f"serving of {model.family}, whose layers keep a state for each sequence"
        raise NotModelledError(what, field="workload.task", modelled=["train"])
    _only(workload.engine, "workload.engine", (Engine.TRANSFORMERS,))
    _only(workload.quantization, "workload.quantization", (Quantization.NONE,))
    _only(workload.cache, "workload.cache", (Cache.DYNAMIC, Cache.STATIC))
    _only(workload.weight_dtype, "workload.weight_dtype", (DType.BF16, DType.FP16, DType.FP32))
    if workload.kv_cache_dtype is not workload.weight_dtype:
        what = f"kv_cache_dtype {workload.kv_cache_dtype.value} beside {workload.weight_dtype.value} weights"
        raise NotModelledError(what, field="workload.kv_cache_dtype", modelled=["the dtype of the weights"])
    if workload.num_beams > 1:
        raise NotModelledError("beam search", field="workload.num_beams", modelled=["1"])
    _check_engine_words(workload)
    _check_sequence(model, workload.prompt_tokens + workload.output_tokens)
    _check_attention(model, workload.attention)
    _check_layout(model, layout)
    if layout.zero_stage:
        message = f"zero_stage is {layout.zero_stage}, but serving has no optimizer to shard; leave it at 0"
        raise InvalidInputError(message, field="layout.zero_stage")


def _check_engine_words(workload: ServeWorkload) -> None:
    """Raise for words that change nothing on transformers: who says them expects an answer that rests on them."""
    for name in ("engine_version", "gpu_memory_fraction", "max_num_batched_tokens"):
        if getattr(workload, name) is not None:
            raise NotModelledError(name, field=f"workload.{name}", modelled=[f"requests without {name}"])
    if workload.enforce_eager:
        raise NotModelledError("enforce_eager true", field="workload.enforce_eager", modelled=["enforce_eager false"])
    if workload.max_model_len is None:
        return
    tokens = workload.prompt_tokens + workload.output_tokens
    if workload.max_model_len < tokens:
        message = f"max_model_len is {workload.max_model_len}, but prompt_tokens + output_tokens is {tokens}; at least {tokens}"
        raise InvalidInputError(message, field="workload.max_model_len")
    if workload.cache is not Cache.STATIC:
        what = f"max_model_len of a {workload.cache.value} cache"
        raise NotModelledError(what, field="workload.max_model_len", modelled=["cache static"])


def _only(value: object, field: str, modelled: tuple[object, ...]) -> None:
    if value not in modelled:
        name = field.rpartition(".")[2]
        raise NotModelledError(
            f"{name} {str(value)!r}", field=field, modelled=[str(word) for word in modelled if word is not None]
        )


def _check_adapters(model: Architecture, workload: TrainWorkload) -> None:
    lora = workload.lora
    if lora is None:
        return
    if lora.variant not in {"lora", "rslora"}:
        raise NotModelledError(f"LoRA variant {lora.variant!r}", field="workload.lora.variant", modelled=["lora", "rslora"])
    if model.recurrent:
        raise NotModelledError("adapters on state-space mixers", field="workload.lora", modelled=["method: full"])
    known = {layer.target for block, _ in model.blocks for layer in block.linears()}
    known |= {layer.target for layer in model.outer_linears}
    if lora.targets is None and model.spec.num_experts:
        what = "target_modules 'all-linear' of a model with stacked experts, which PEFT adapts as well"
        raise NotModelledError(what, field="workload.lora.target_modules", modelled=[f"a list of {', '.join(sorted(known))}"])
    missing = [name for name in lora.targets or () if name not in known]
    if missing:
        message = f"target_modules names {missing[0]!r}; this model has {', '.join(sorted(known))}"
        raise InvalidInputError(message, field="workload.lora.target_modules")


def _check_sequence(model: Architecture, tokens: int) -> None:
    spec = model.spec
    if not spec.rotary and 0 < spec.max_position_embeddings < tokens:
        message = f"{tokens} tokens, but {spec.family} has learned positions for {spec.max_position_embeddings}"
        raise InvalidInputError(message, field="workload.sequence_length")


def _check_attention(model: Architecture, asked: Attention) -> None:
    """Raise for a kernel that cannot cap scores."""
    if model.only_eager and asked not in {Attention.EAGER, Attention.SDPA}:
        what = f"attention {asked.value!r} of a model that caps its scores (attn_logit_softcapping)"
        raise NotModelledError(what, field="workload.attention", modelled=["eager", "sdpa, which falls back to eager"])


def attention_warnings(model: Architecture, asked: Attention) -> tuple[str, ...]:
    """Return what to say of an asked kernel that a model does not run."""
    if asked is Attention.EAGER or not (model.writes_out_attention or model.only_eager):
        return ()
    return (f"attention {asked.value} has no effect: {model.family} runs the attention that its own code writes out",)


def _check_precision(model: Architecture, workload: TrainWorkload, layout: Layout) -> None:
    precision = workload.precision
    for field in ("param_dtype", "compute_dtype", "grad_dtype", "master_dtype", "main_grad_dtype", "optimizer_dtype"):
        _only(getattr(precision, field), f"workload.precision.{field}", (*_TRAINED_DTYPES, None))
    if workload.lora is not None:
        _only(workload.lora.dtype, "workload.lora.dtype", _TRAINED_DTYPES)
    if precision.autocast and model.spec.num_experts:
        raise NotModelledError("experts under autocast", field="workload.precision", modelled=["bf16", "fp32", "bf16_mixed"])
    casts = precision.compute_dtype is not precision.param_dtype and not precision.autocast
    if casts and gathering(precision, layout) is None:
        message = (
            f"compute_dtype {precision.compute_dtype.value} beside {precision.param_dtype.value} parameters without autocast "
            "is a cast at gather: use sharding 'fsdp2' or zero_stage 3, or set autocast"
        )
        raise InvalidInputError(message, field="workload.precision.compute_dtype")


def _check_layout(model: Architecture, layout: Layout) -> None:
    heads = model.spec.num_attention_heads
    if heads % layout.tensor_parallel:
        divisors = ", ".join(str(n) for n in range(1, heads + 1) if heads % n == 0)
        message = f"tensor_parallel {layout.tensor_parallel} does not divide {heads} attention heads; possible: {divisors}"
        raise InvalidInputError(message, field="layout.tensor_parallel")
    for name in ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel"):
        if getattr(layout, name) > 1:
            raise NotModelledError(f"{name} {getattr(layout, name)}", field=f"layout.{name}", modelled=["1"])
