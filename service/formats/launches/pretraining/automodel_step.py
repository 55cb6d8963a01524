"""NeMo-Automodel's number formats, adapters, optimizer and loss as a workload.

NeMo-Automodel 0.7, ``components/distributed/config.py``, ``components/_peft/lora.py``.
"""

from service.formats.launches.pretraining.nemo_keys import AUTOMODEL
from service.formats.launches.trainers.number_formats import DTYPES
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.settings import Setting, Settings, make_default

_SOURCE = f"NeMo-Automodel {AUTOMODEL}"
_LOSSES = {
    "FusedLinearCrossEntropy": "fused_linear",
    "ChunkedCrossEntropy": "chunked",
    "MaskedCrossEntropy": "full_logits",
}
_OPTIMIZERS = frozenset({"Adam", "AdamW", "FusedAdam", "SGD"})
_PROJECTIONS = (
    *("q_proj", "k_proj", "v_proj", "o_proj"),
    *("gate_proj", "up_proj", "down_proj"),
)


def take_or_default(config: Settings, name: str, default: object) -> Setting:
    """Return a setting, or its default."""
    return config.take(name) or make_default(name, default, _SOURCE)


def put_formats(config: Settings, draft: Draft) -> str:
    """Set the formats of weights and reductions; return that of the weights.

    FSDP2 gathers in bf16 and reduces in fp32 (``FSDP2Config.mp_policy``).
    """
    dtype = config.take("model.torch_dtype", "model.dtype", "model.config.torch_dtype")
    if dtype is None or str(dtype.value).casefold() == "auto":
        dtype = make_default("torch_dtype", "bfloat16", f"{_SOURCE}, _transformers/auto_model.py")
    weights = dtype.as_choice(DTYPES)
    if draft.get("layout.sharding") == "ddp":
        draft.put("workload.precision", weights, dtype)
        return weights
    policy: dict[str, object] = {
        "param_dtype": weights,
        "compute_dtype": "bf16",
        "grad_dtype": weights,
        "reduce_dtype": "fp32",
    }
    masters = config.take("optimizer.master_weights")
    moments = config.take("optimizer.exp_avg_dtype", "optimizer.exp_avg_sq_dtype")
    remainders = config.take("optimizer.store_param_remainders")
    if masters is not None and masters.as_bool():
        keeps = remainders is not None and remainders.as_bool()
        policy["master_dtype"] = "bf16" if keeps else "fp32"
        policy["optimizer_dtype"] = "fp32"
    if moments is not None:
        policy["optimizer_dtype"] = moments.as_choice(DTYPES)
    states = [setting for setting in (masters, moments, remainders) if setting is not None]
    draft.put("workload.precision", policy, dtype, *states)
    return weights


def put_method(config: Settings, draft: Draft, dtype: str) -> None:
    """Set the adapters, if there are any, and the bits under them."""
    rank = config.take("peft.dim")
    linear, targets = config.take("peft.match_all_linear"), config.take("peft.target_modules")
    target = config.peek("peft._target_")
    four, eight = (
        config.take("quantization.load_in_4bit"),
        config.take("quantization.load_in_8bit"),
    )
    bits = next(
        (number for setting, number in ((four, 4), (eight, 8)) if setting and setting.as_bool()),
        None,
    )
    if rank is None and target is None and targets is None and linear is None:
        draft.put("workload.method", "full")
        return
    draft.put("workload.method", "lora" if bits is None else "qlora")
    if bits is not None:
        draft.put("workload.quantization_bits", bits)
    rank = rank or make_default("peft.dim", 8, f"{_SOURCE}, components/_peft/lora.py")
    draft.put("workload.lora.rank", rank.as_int(minimum=1), rank)
    draft.put("workload.lora.dtype", dtype)
    dora = config.take("peft.use_dora")
    if dora is not None and dora.as_bool():
        draft.put("workload.lora.variant", "dora", dora)
    elif dora is not None:
        draft.drop(dora)
    if linear is not None and linear.as_bool():
        draft.put("workload.lora.target_modules", "all-linear", linear)
    elif targets is not None:
        draft.put("workload.lora.target_modules", _list_targets(targets), targets)
    else:
        draft.ask("workload.lora.target_modules", "the recipe names no target_modules")


def _list_targets(targets: Setting) -> list[str] | str:
    """Return the last parts of patterns, ``*_proj`` as all projections."""
    if [str(pattern).strip("[]'\"") for pattern in targets.as_list()] == ["*"]:
        return "all-linear"
    names: list[str] = []
    for pattern in targets.as_list():
        last = str(pattern).rpartition(".")[2].strip("*\"'[]_ ")
        names += (
            [name for name in _PROJECTIONS if name.endswith(last)] if last == "proj" else [last]
        )
    names = [name for name in dict.fromkeys(names) if name]
    if not names:
        raise targets.refuse("names of linear layers, or patterns such as *_proj")
    return names


def put_step(config: Settings, draft: Draft) -> None:
    """Set the optimizer, the loss and what is clipped."""
    target = take_or_default(config, "optimizer._target_", "torch.optim.AdamW")
    name = str(target.value).rpartition(".")[2]
    if name not in _OPTIMIZERS:
        message = f"{target.key} is {name}; Adam, AdamW, FusedAdam and SGD have a model here"
        raise LaunchFormatError(message, where=target.where)
    fused, foreach = config.take("optimizer.fused"), config.take("optimizer.foreach")
    is_fused = name == "FusedAdam" or (fused is not None and fused.as_bool())
    loops = foreach is not None and not foreach.as_bool() and not is_fused
    optimizer = "adamw_fused" if is_fused else "adamw_loop" if loops else "adamw"
    switches = [setting for setting in (fused, foreach) if setting is not None]
    draft.put("workload.optimizer", "sgd" if name == "SGD" else optimizer, target, *switches)
    loss = config.take("loss_fn._target_")
    kind = "MaskedCrossEntropy" if loss is None else str(loss.value).rpartition(".")[2]
    if loss is not None and kind in _LOSSES:
        draft.put("workload.loss", _LOSSES[kind], loss)
    elif loss is not None:
        draft.ignore(loss, "the loss is counted as cross entropy over whole logits")
    norm = config.take("clip_grad_norm.max_norm") or make_default("max_norm", 1.0, _SOURCE)
    is_clipped = str(norm.value).casefold() != "none" and norm.as_float() > 0.0
    draft.put("workload.gradient_clipping", is_clipped, norm)
