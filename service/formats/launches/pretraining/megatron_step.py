"""Megatron-LM's batch, number formats, recomputation and optimizer as a workload.

``megatron/training/arguments.py``, ``core/optimizer/optimizer_config.py``.
"""

from service.formats.launches.pretraining.megatron_keys import SOURCE
from service.formats.launches.pretraining.megatron_model import ModelShape
from service.formats.launches.values.draft import Draft
from service.formats.launches.values.errors import LaunchFormatError
from service.formats.launches.values.settings import Setting, Settings, make_default

_ATTENTION = {
    "auto": "sdpa",
    "fused": "sdpa",
    "flash": "flash",
    "unfused": "eager",
    "local": "eager",
}
_OPTIMIZERS = {"adam": "adamw", "sgd": "sgd", "muon": "muon", "dist_muon": "muon", "lion": "lion"}
_STORED = {"fp32": "fp32", "bf16": "bf16", "fp16": "fp16", "fp8": "fp8"}
_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1}
_PRECISE = ("main_grads_dtype", "main_params_dtype", "exp_avg_dtype", "exp_avg_sq_dtype")
_FULL = "full"


def read_micro_batch(arguments: Settings, draft: Draft) -> int | None:
    """Set micro batch and length; return the batch.

    It is None where the launch does not say it.
    """
    length = arguments.take("seq_length", "encoder_seq_length", "decoder_seq_length")
    if length is None:
        draft.ask("workload.sequence_length", "the launch does not say seq-length")
    else:
        draft.put("workload.sequence_length", length.as_int(minimum=1), length)
    batch = arguments.take("micro_batch_size")
    if batch is None:
        draft.ask("workload.micro_batch_size", "the launch does not say micro-batch-size")
        return None
    draft.put("workload.micro_batch_size", batch.as_int(minimum=1), batch)
    return batch.as_int(minimum=1)


def read_total_batch(arguments: Settings, draft: Draft) -> Setting | None:
    """Return the batch of all ranks, a schedule's last one."""
    total, schedule = (
        arguments.take("global_batch_size"),
        arguments.take("step_batch_size_schedule"),
    )
    if schedule is None:
        return total
    last = str(schedule.value).split()[-1:]
    number = last[0].rpartition(":")[2] if last else ""
    if not number.isdecimal():
        raise schedule.refuse("pairs such as 0:16 2.4B:320")
    draft.note(schedule, f"the batch grows to {number}, which the answer is for")
    if total is not None:
        draft.note(total, "beside a schedule, which Megatron-LM refuses")
    return Setting(key=schedule.key, value=int(number), where=schedule.where)


def put_step(arguments: Settings, draft: Draft, shape: ModelShape) -> None:
    """Set everything of a step beside its batch."""
    _put_precision(arguments, draft)
    _put_optimizer(arguments, draft)
    _put_recomputation(arguments, draft, shape)
    backend = arguments.take("attention_backend")
    if backend is not None:
        name = str(backend.value).rpartition(".")[2]
        attention = Setting(key=backend.key, value=name, where=backend.where)
        draft.put("workload.attention", attention.as_choice(_ATTENTION), attention)
    clip = arguments.take("clip_grad") or make_default("clip_grad", 1.0, SOURCE)
    draft.put("workload.gradient_clipping", clip.as_float() > 0.0, clip)
    deterministic = arguments.take("deterministic_mode")
    if deterministic is not None:
        draft.put("workload.deterministic", deterministic.as_bool(), deterministic)
    _put_loss(arguments, draft)


def _put_precision(arguments: Settings, draft: Draft) -> None:
    """Set the formats of weights, gradients, masters and moments.

    bf16 accumulates in fp32 unless ``--grad-reduce-in-bf16``; fp16 only where it is said.
    """
    bf16, fp16 = arguments.take("bf16"), arguments.take("fp16")
    if bf16 is not None and fp16 is not None and bf16.as_bool() and fp16.as_bool():
        message = f"{bf16.key} and {fp16.key} are both given; Megatron-LM takes one"
        raise LaunchFormatError(message, where=fp16.where)
    is_bf16 = bf16 is not None and bf16.as_bool()
    is_fp16 = fp16 is not None and fp16.as_bool()
    settings = [setting for setting in (bf16, fp16) if setting is not None]
    reduces, accumulates = (
        arguments.take("grad_reduce_in_bf16"),
        arguments.take("accumulate_allreduce_grads_in_fp32"),
    )
    settings += [setting for setting in (reduces, accumulates) if setting is not None]
    in_fp32 = accumulates is not None and accumulates.as_bool()
    in_bf16 = reduces is not None and reduces.as_bool()
    precise = _read_precise(arguments, draft)
    if not (is_bf16 or is_fp16):
        draft.put("workload.precision", "fp32", *settings)
        return
    if is_bf16 and precise.get("main_grads_dtype", "fp32") == "fp32":
        in_fp32 = not in_bf16
    weights = "bf16" if is_bf16 else "fp16"
    policy = _name_policy(weights, precise, in_fp32=in_fp32)
    draft.put("workload.precision", policy, *settings)
    fp8 = arguments.take("fp8_format", "fp8")
    if fp8 is not None:
        draft.put("workload.float8", value=True)
        draft.note(fp8, "workload.float8 = true")


def _read_precise(arguments: Settings, draft: Draft) -> dict[str, str]:
    """Return the formats of a precision-aware optimizer, empty without it."""
    switch = arguments.take("use_precision_aware_optimizer")
    states = {name: arguments.take(name) for name in _PRECISE}
    formats = {
        name: setting.as_choice(_STORED) for name, setting in states.items() if setting is not None
    }
    is_on = switch is not None and switch.as_bool()
    for setting in (switch, *states.values()):
        if setting is not None:
            draft.note(setting, "the formats of the optimizer's states" if is_on else "not in use")
    return {"main_params_dtype": "fp32", **formats} if is_on else {}


def _name_policy(weights: str, precise: dict[str, str], *, in_fp32: bool) -> object:
    """Return the contract's precision: a policy by name, or its formats."""
    if not precise:
        if weights == "bf16":
            return "megatron_bf16" if in_fp32 else "bf16_mixed"
        return _make_formats(weights, "fp32", "fp32", in_fp32=True) if in_fp32 else "fp16_mixed"
    masters = precise["main_params_dtype"]
    if weights == "bf16" and masters == "fp32":
        # Fused Adam keeps the 16 bits that bf16 weights lack (store_param_remainders).
        masters = "bf16"
    moments = max(
        (precise.get(name, "fp32") for name in _PRECISE[2:]), key=lambda name: _BYTES[name]
    )
    return _make_formats(weights, masters, moments, in_fp32=in_fp32)


def _make_formats(weights: str, masters: str, moments: str, *, in_fp32: bool) -> dict[str, object]:
    formats: dict[str, object] = {
        "param_dtype": weights,
        "grad_dtype": "fp32" if in_fp32 else weights,
        "master_dtype": masters,
        "optimizer_dtype": moments,
    }
    if in_fp32:
        formats |= {"main_grad_dtype": "fp32", "main_grad_persistent": True}
    return formats


def _put_optimizer(arguments: Settings, draft: Draft) -> None:
    """Set the optimizer, and where its states live."""
    kind = arguments.take("optimizer") or make_default("optimizer", "adam", SOURCE)
    momentum = arguments.take("sgd_momentum")
    name = kind.as_choice(_OPTIMIZERS)
    if name == "sgd" and (momentum is None or momentum.as_float() > 0.0):
        name = "sgd_momentum"
    draft.put("workload.optimizer", name, kind)
    if momentum is not None:
        draft.note(momentum, "momentum of SGD")
    offload, fraction = (
        arguments.take("optimizer_cpu_offload"),
        arguments.take("optimizer_offload_fraction"),
    )
    layers = arguments.take("cpu_offloading_num_layers")
    if offload is not None and offload.as_bool():
        draft.put("workload.offload.optimizer", "cpu", offload)
        if fraction is not None and fraction.as_float() < 1.0:
            draft.ignore(fraction, "the states are counted as offloaded, every one")
    elif fraction is not None:
        draft.drop(fraction)
    if layers is not None and layers.as_int() > 0:
        draft.put("workload.offload.activations", "cpu", layers)
    fine = arguments.take("fine_grained_activation_offloading")
    if fine is not None and fine.as_bool():
        draft.put("workload.offload.activations", "cpu", fine)


def _put_recomputation(arguments: Settings, draft: Draft, shape: ModelShape) -> None:
    """Set what backward computes again.

    Every layer or the attention core alone have a word; less than that is counted as nothing.
    """
    short, kind = arguments.take("recompute_activations"), arguments.take("recompute_granularity")
    method, count = arguments.take("recompute_method"), arguments.take("recompute_num_layers")
    modules = arguments.take("recompute_modules")
    if kind is None and short is not None and short.as_bool():
        kind = Setting(key=short.key, value="selective", where=short.where)
    details = [setting for setting in (method, count, modules) if setting is not None]
    if kind is None:
        for setting in details:
            draft.drop(setting)
        return
    name = kind.as_choice({"full": _FULL, "selective": "selective"})
    if name == _FULL:
        _put_full(kind, method, count, draft, shape)
        if modules is not None:
            draft.drop(modules)
        return
    names = [] if modules is None else [str(word).strip("[]'\"") for word in modules.as_list()]
    if modules is not None and names != ["core_attn"]:
        draft.ignore(modules, "of modules that are computed again, the attention core counts alone")
    keeps_core = bool(names) and "core_attn" not in names
    draft.put("workload.activation_checkpointing", "none" if keeps_core else "selective", kind)
    for detail in (method, count):
        if detail is not None:
            draft.drop(detail)


def _put_full(
    kind: Setting, method: Setting | None, count: Setting | None, draft: Draft, shape: ModelShape
) -> None:
    """Set full recomputation, of every layer or as an upper bound."""
    block = method is not None and method.as_choice({"uniform": False, "block": True})
    number = 1 if count is None else count.as_int(minimum=0)
    covers = shape.num_layers is not None and number >= shape.num_layers
    if block and not covers:
        draft.put("workload.activation_checkpointing", "none", kind)
        if method is not None:
            draft.note(method, "the first layers of a stage are computed again, the others kept")
        if count is not None:
            draft.ignore(
                count, "no layer is counted as computed again: the answer is an upper bound"
            )
        return
    draft.put("workload.activation_checkpointing", _FULL, kind)
    if method is not None:
        draft.note(method, "every layer is computed again")
    if count is not None and number > 1 and not block:
        draft.ignore(count, f"layers are counted one at a time, not {number}")
    elif count is not None:
        draft.note(count, "every layer is computed again")


def _put_loss(arguments: Settings, draft: Draft) -> None:
    """Set the cross entropy, fused by Megatron-LM itself by default."""
    fused, kind = (
        arguments.take("cross_entropy_loss_fusion"),
        arguments.take("cross_entropy_fusion_impl"),
    )
    if fused is None or not fused.as_bool():
        for setting in (fused, kind):
            if setting is not None:
                draft.drop(setting)
        return
    kind = kind or make_default("cross_entropy_fusion_impl", "native", SOURCE)
    draft.put("workload.loss", "fused_cross_entropy", fused)
    name = kind.as_choice({"native": "native", "te": "te"})
    draft.put("workload.megatron.cross_entropy_fusion_impl", name, kind)
