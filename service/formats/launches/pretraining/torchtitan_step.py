"""torchtitan's batch, number formats and recomputation as a workload.

torchtitan ``trainer.py``, ``distributed/activation_checkpoint.py``, ``components/optimizer``.
"""

from dataclasses import dataclass

from service.formats.launches.values.draft import Draft
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.settings import Setting, Settings, make_default

_DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
_IMPLEMENTATIONS = {"fused": "adamw_fused", "foreach": "adamw", "for-loop": "adamw_loop"}
_MODES = {"none": "none", "full": "full", "selective": "selective", "memory_budget": "none"}
_KINDS = {"FullAC": "full", "SelectiveAC": "selective", "MemoryBudgetAC": "none"}
_BUDGET = "what a budget saves is the compiler's choice: all is counted"
_FLOAT8 = frozenset({"float8", "quantize.linear.float8", "Float8LinearConverter"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Sequences of one rank at once, and before accumulation.

    ``total`` is the batch of all ranks, in sequences, or in tokens where ``sequence_tokens`` says
    how many a sequence has.
    """

    micro: int
    local: int
    total: Setting | None
    sequence_tokens: int | None = None
    settings: tuple[Setting, ...] = ()


def read_batch(config: Settings, draft: Draft) -> Batch:
    """Set the length of sequences and the micro batch; return the batches.

    Releases up to 0.3 count sequences; later ones count tokens.
    """
    tokens = config.take("training.num_tokens_per_microbatch_per_dp_rank")
    total = config.take("training.num_tokens_per_train_step")
    context = config.take("training.max_context_length")
    count = config.take("parallelism.num_pp_microbatches")
    if tokens is not None or context is not None:
        return _read_tokens(tokens, total, context, count, draft)
    length = config.take("training.seq_len") or make_default("seq_len", 2048, "torchtitan")
    draft.put("workload.sequence_length", length.as_int(minimum=1), length)
    local = config.take("training.local_batch_size") or make_default(
        "local_batch_size", 8, "torchtitan"
    )
    number = local.as_int(minimum=1)
    micro = config.take("parallelism.pipeline_parallel_microbatch_size")
    stages = draft.get("layout.pipeline_parallel")
    size = number
    if isinstance(stages, int) and stages > 1:
        size = 1 if micro is None else micro.as_int(minimum=1)
        if count is not None and micro is None:
            size = max(1, number // count.as_int(minimum=1))
        if number % size:
            raise local.refuse(f"a multiple of {size}, the micro-batch of the pipeline")
    draft.put("workload.micro_batch_size", size, local if size == number else micro or local)
    settings = tuple(
        setting for setting in (micro, count, local) if setting is not None and size != number
    )
    if size == number:
        for setting in (micro, count):
            if setting is not None:
                draft.note(setting, "one micro-batch of the pipeline")
    return Batch(
        micro=size,
        local=number,
        total=config.take("training.global_batch_size"),
        settings=settings,
    )


def _read_tokens(
    tokens: Setting | None,
    total: Setting | None,
    context: Setting | None,
    count: Setting | None,
    draft: Draft,
) -> Batch:
    context = context or make_default("max_context_length", 2048, "torchtitan")
    length = context.as_int(minimum=1)
    draft.put("workload.sequence_length", length, context)
    tokens = tokens or make_default("num_tokens_per_microbatch_per_dp_rank", 16384, "torchtitan")
    size, remainder = divmod(tokens.as_int(minimum=1), length)
    if remainder or not size:
        raise tokens.refuse(f"a multiple of max_context_length, {length}")
    draft.put("workload.micro_batch_size", size, tokens)
    stages = draft.get("layout.pipeline_parallel")
    runs = count.as_int(minimum=1) if count is not None and isinstance(stages, int) else 1
    return Batch(
        micro=size,
        local=size * (runs if isinstance(stages, int) and stages > 1 else 1),
        total=total,
        sequence_tokens=length,
        settings=() if count is None else (count,),
    )


def put_step(config: Settings, draft: Draft, *, is_alone: bool, source: str) -> None:
    """Set everything of a step beside its batch."""
    _put_precision(config, draft, is_alone=is_alone, source=source)
    _put_optimizer(config, draft, source)
    _put_recomputation(config, draft, source)
    compiles = config.take("compile.enable")
    if compiles is not None:
        draft.put("workload.compile", compiles.as_bool(), compiles)
    deterministic = config.take("debug.deterministic")
    if deterministic is not None:
        draft.put("workload.deterministic", deterministic.as_bool(), deterministic)
    norm = config.take("training.max_norm") or make_default("max_norm", 1.0, source)
    norm.as_float()
    draft.put("workload.gradient_clipping", value=True)
    draft.note(norm, "workload.gradient_clipping = true: norms are always clipped")
    offload = config.take("training.enable_cpu_offload")
    if offload is not None and offload.as_bool():
        draft.put("workload.offload.parameters", "cpu", offload)
        draft.put("workload.offload.optimizer", "cpu")
    elif offload is not None:
        draft.drop(offload)
    _put_converters(config, draft)
    loss = config.take("loss.kind")
    if loss is not None:
        is_chunked = "Chunked" in str(loss.value)
        draft.put("workload.loss", "chunked" if is_chunked else "full_logits", loss)


def _put_precision(config: Settings, draft: Draft, *, is_alone: bool, source: str) -> None:
    """Set the formats of shards, gathered weights and reduced gradients.

    One GPU of a release before 0.3 shards nothing, and runs autocast.
    """
    stored = config.take("training.dtype") or make_default("dtype", "float32", source)
    gathered = config.take("training.mixed_precision_param") or make_default(
        "mixed_precision_param", "bfloat16", source
    )
    reduced = config.take("training.mixed_precision_reduce") or make_default(
        "mixed_precision_reduce", "float32", source
    )
    weights, compute, reduction = (
        setting.as_choice(_DTYPES) for setting in (stored, gathered, reduced)
    )
    settings = (stored, gathered, reduced)
    if is_alone:
        is_mixed = (weights, compute) == ("fp32", "bf16")
        draft.put("workload.precision", "amp_bf16" if is_mixed else weights, *settings)
        return
    policy: object = {
        "param_dtype": weights,
        "compute_dtype": compute,
        "grad_dtype": weights,
        "optimizer_dtype": weights,
    }
    if weights == compute == reduction:
        policy = weights
    elif reduction != weights:
        policy = {**policy, "reduce_dtype": reduction} if isinstance(policy, dict) else policy
    draft.put("workload.precision", policy, *settings)


def _put_optimizer(config: Settings, draft: Draft, source: str) -> None:
    name, kind = config.take("optimizer.name"), config.take("optimizer.kind")
    implementation = config.take("optimizer.implementation")
    fused = config.take("optimizer.is_fused")
    if fused is not None and implementation is None:
        word = "fused" if fused.as_bool() else "foreach"
        implementation = Setting(key=fused.key, value=word, where=fused.where)
    if name is not None and name.as_text().casefold() not in {"adamw", "adam"}:
        raise name.refuse("AdamW, whose states have a model here")
    for setting in (name, kind):
        if setting is not None:
            draft.note(setting, "AdamW, as implementation says")
    if kind is not None and str(kind.value) not in {"default_adamw", "OptimizersContainer"}:
        draft.warn(f"optimizer {kind.value} is counted as AdamW")
    implementation = implementation or make_default("implementation", "fused", source)
    optimizer = implementation.as_choice(_IMPLEMENTATIONS)
    draft.put("workload.optimizer", optimizer, implementation)
    early = config.take("optimizer.early_step_in_backward")
    if early is not None:
        draft.put("workload.optimizer_in_backward", early.as_bool(), early)


def _put_recomputation(config: Settings, draft: Draft, source: str) -> None:
    """Set what backward computes again: single operations, every n-th layer, or all.

    Raises LaunchFormatError for an option that is neither ``op`` nor a number.
    """
    off = [setting for name, setting in config.list_left() if _is_off(name, setting)]
    mode, kind = (
        config.take("activation_checkpoint.mode"),
        config.take("activation_checkpoint.kind", "activation_checkpoint"),
    )
    option = config.take("activation_checkpoint.selective_ac_option")
    if off:
        draft.put("workload.activation_checkpointing", "none", *off)
        if option is not None:
            draft.drop(option)
        return
    if kind is not None and mode is None:
        _put_kind(kind, draft)
        return
    is_toml = "job_config" in source
    mode = mode or make_default("mode", "selective", source)
    choice = mode.as_choice(_MODES)
    if str(mode.value) == "memory_budget":
        draft.ignore(mode, _BUDGET)
    if choice != "selective":
        if option is not None:
            draft.drop(option)
        draft.put("workload.activation_checkpointing", choice, mode)
        return
    option = option or make_default("selective_ac_option", "2" if is_toml else "op", source)
    word = str(option.value)
    if word == "op":
        draft.put("workload.activation_checkpointing", "selective", mode, option)
    elif word.isdecimal() and int(word[:5]) > 0:
        every = {"selective": option.as_int(minimum=1)}
        draft.put("workload.activation_checkpointing", every, mode, option)
    else:
        message = f"{option.key} is {word[:60]!r}; expected op, or every how many layers"
        raise LaunchFormatError(message, where=option.where)


def _put_kind(kind: Setting, draft: Draft) -> None:
    """Set recomputation by the class of its configuration."""
    word = str(kind.value)
    if word not in _KINDS:
        draft.warn(f"activation_checkpoint {word} is counted as SelectiveAC")
    draft.put("workload.activation_checkpointing", _KINDS.get(word, "selective"), kind)
    if word == "MemoryBudgetAC":
        draft.ignore(kind, _BUDGET)


def _is_off(name: str, setting: Setting) -> bool:
    """Return whether a setting says that nothing is computed again."""
    is_mode = name in {"activation_checkpoint.mode", "activation_checkpoint.kind"}
    return is_mode and str(setting.value).casefold() == "none"


def _put_converters(config: Settings, draft: Draft) -> None:
    """Set fp8; other formats have no word."""
    converters = config.take("model.converters")
    if converters is None:
        return
    names = [str(name).strip("[]'\" ") for name in converters.as_list()]
    names = [name for name in names if name]
    if any(name in _FLOAT8 for name in names):
        draft.put("workload.float8", value=True)
        draft.note(converters, "workload.float8 = true")
    strange = [name for name in names if name not in _FLOAT8]
    if strange:
        draft.ignore(converters, f"{', '.join(strange[:4])}: layers are counted as they are")
    elif not names:
        draft.drop(converters)
