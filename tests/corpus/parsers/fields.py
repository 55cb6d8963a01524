"""Fields of the question that launchers' own values mean."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from service.formats.launches.trainers.target_patterns import list_pattern_names

Values = Mapping[str, Any]
_ATTENTION = {
    "eager": "eager",
    "sdpa": "sdpa",
    "flash_attention_2": "flash",
    "flash_attention_3": "flash",
    "fa2": "flash",
    "fa3": "flash",
    "disabled": "eager",
}
_POLICIES = {
    ("float32", None): "fp32",
    ("bfloat16", None): "bf16",
    ("float32", "bf16"): "amp_bf16",
    ("float32", "fp16"): "amp_fp16",
    ("bfloat16", "bf16"): "bf16_autocast",
    ("float16", None): "fp16",
    ("float16", "fp16"): "fp16_autocast",
}
_SAME = {
    "per_device_train_batch_size": "workload.micro_batch_size",
    "micro_batch_size": "workload.micro_batch_size",
    "gradient_accumulation_steps": "workload.gradient_accumulation_steps",
    "sequence_len": "workload.sequence_length",
    "cutoff_len": "workload.sequence_length",
    "max_length": "workload.sequence_length",
    "optimizer": "workload.optimizer",
    "optim": "workload.optimizer",
    "base_model": "model",
    "model_name_or_path": "model",
    "save_total_limit": "workload.save_total_limit",
    "torch_compile": "workload.compile",
}
"""Values that are a field's as they are."""


def list_axolotl_fields(values: Values) -> Iterator[tuple[str, object]]:
    """Yield fields and values of an axolotl configuration."""
    yield from _list_same(values)
    adapter = values.get("adapter")
    quantised = values.get("load_in_4bit") or values.get("load_in_8bit")
    yield "workload.method", "full" if not adapter else "qlora" if quantised else "lora"
    if adapter:
        yield from _list_adapters(values, "lora_r", "lora_target_modules")
        if values.get("lora_target_linear"):
            yield "workload.lora.target_modules", "all-linear"
    fsdp = values.get("fsdp_config") or {}
    runs = values.get("gradient_checkpointing") or fsdp.get("activation_checkpointing")
    yield "workload.activation_checkpointing", "full" if runs else "none"
    yield "workload.packing", "packed" if values.get("sample_packing") else None
    if values.get("attn_implementation") in _ATTENTION:
        yield "workload.attention", _ATTENTION[values["attn_implementation"]]
    halves = [half for half in ("bf16", "fp16") if values.get(half) is True]
    if not {"fsdp_version", "fsdp_config", "deepspeed"} & values.keys():
        policy = _POLICIES.get((str(values["torch_dtype"]), next(iter(halves), None)))
        yield "workload.precision", policy


def list_llamafactory_fields(values: Values) -> Iterator[tuple[str, object]]:
    """Yield fields and values of LLaMA-Factory's arguments."""
    names = ("galore", "apollo", "muon")
    chosen = next((name for name in names if values.get(f"use_{name}")), None)
    words = {"galore": "galore_adamw", "apollo": "apollo_adamw", "muon": "muon"}
    optimizer = {} if chosen is None else {"optim": words[chosen]}
    yield from _list_same({**values, **optimizer})
    is_full = values["finetuning_type"] == "full"
    quantised = "quantization_bit" in values
    yield "workload.method", "full" if is_full else "qlora" if quantised else "lora"
    if not is_full:
        yield from _list_adapters(values, "lora_rank", "lora_target")
    if quantised:
        yield "workload.quantization_bits", values["quantization_bit"]
    runs = not values["disable_gradient_checkpointing"]
    yield "workload.activation_checkpointing", "full" if runs else "none"
    if runs:
        yield "workload.reentrant_checkpointing", values["use_reentrant_gc"]
    yield "workload.gradient_clipping", values["max_grad_norm"] > 0
    yield "workload.kernels", "liger" if values["enable_liger_kernel"] else None
    yield "workload.packing", "packed" if values["neat_packing"] else None
    yield "workload.attention", _ATTENTION.get(values["flash_attn"])


def list_trl_fields(values: Values) -> Iterator[tuple[str, object]]:
    """Yield fields and values of TRL's and transformers' arguments."""
    yield from _list_same(values)
    if values.get("use_peft"):
        quantised = values.get("load_in_4bit") or values.get("load_in_8bit")
        yield "workload.method", "qlora" if quantised else "lora"
        yield from _list_adapters(values, "lora_r", "lora_target_modules")
    else:
        yield "workload.method", "full"
    runs = values["gradient_checkpointing"]
    yield "workload.activation_checkpointing", "full" if runs else "none"
    yield "workload.gradient_clipping", values["max_grad_norm"] > 0
    yield "workload.kernels", "liger" if values["use_liger_kernel"] else None
    if "packing" in values:
        is_free = "padding_free" if values["padding_free"] else None
        yield "workload.packing", "packed" if values["packing"] else is_free
    if "loss_type" in values and "packing" in values and not values["use_liger_kernel"]:
        yield "workload.loss", values["loss_type"]
    if "dtype" in values:
        half = next((half for half in ("bf16", "fp16") if values.get(half)), None)
        yield "workload.precision", _POLICIES.get((values["dtype"], half))


def list_accelerate_fields(values: Values) -> Iterator[tuple[str, object]]:
    """Yield fields and values of what accelerate launches with."""
    if values.get("use_fsdp"):
        version = str(values["fsdp_version"])
        yield "layout.sharding", f"fsdp{version}"
        yield "workload.offload.parameters", "cpu" if _is_true(values, "offload_params") else None
        if version == "1":
            keeps = str(values["fsdp_sharding_strategy"]).endswith(("GRAD_OP", "2", "ZERO2"))
            yield "layout.reshard_after_forward", not keeps
        else:
            yield "layout.reshard_after_forward", _is_true(values, "reshard_after_forward")
        if _is_true(values, "activation_checkpointing"):
            yield "workload.activation_checkpointing", "full"
    if values.get("use_deepspeed") and "deepspeed_config_file" not in values:
        yield "layout.sharding", "deepspeed"
        yield "layout.zero_stage", int(values.get("zero_stage", 2))
        for name, field in (("optimizer", "optimizer"), ("param", "parameters")):
            device = str(values.get(f"offload_{name}_device", "none"))
            yield f"workload.offload.{field}", None if device == "none" else device
    ranks = int(values["num_processes"])
    for name, field in (("tp", "tensor"), ("cp", "context")):
        size = int(values.get(f"parallelism_config_{name}_size", 1))
        ranks //= size
        yield f"layout.{field}_parallel", size if size > 1 else None
    yield "layout.data_parallel", ranks


def list_ms_swift_fields(values: Values) -> Iterator[tuple[str, object]]:
    """Yield fields and values of ms-swift's arguments."""
    kind = values.get("rlhf_type")
    yield from _list_same({key: value for key, value in values.items() if key != "max_length"})
    if kind != "grpo":
        yield "workload.sequence_length", values["max_length"]
    is_full, quantised = values["tuner_type"] == "full", "quant_method" in values
    yield "workload.method", "full" if is_full else "qlora" if quantised else "lora"
    if not is_full:
        yield from _list_adapters(values, "lora_rank", "target_modules")
        yield "workload.lora.dropout", values["lora_dropout"]
        yield "workload.lora.dtype", {"bfloat16": "bf16"}.get(values.get("lora_dtype", ""))
    if quantised:
        yield "workload.quantization_bits", values["quant_bits"]
    if values.get("quant_bits") == 4:
        yield "workload.double_quantization", values["bnb_4bit_use_double_quant"]
    runs = values["gradient_checkpointing"]
    yield "workload.activation_checkpointing", "full" if runs else "none"
    yield "workload.gradient_clipping", values["max_grad_norm"] > 0
    half = next((half for half in ("bf16", "fp16") if values[half]), None)
    yield "workload.precision", _POLICIES[values["torch_dtype"].removeprefix("torch."), half]
    free = "padding_free" if values["padding_free"] else None
    yield "workload.packing", "packed" if values["packing"] else free
    evaluates = values["eval_strategy"] != "no"
    batch = values["per_device_eval_batch_size"] if evaluates else None
    yield "workload.evaluation.batch_size", batch
    if kind is not None:
        yield from _list_preferences(values, kind, is_full=is_full)


def _list_preferences(values: Values, kind: str, *, is_full: bool) -> Iterator[tuple[str, object]]:
    """Yield what ms-swift's trainers of preferences and policies have."""
    yield "workload.trainer", {"rm": "reward"}.get(kind, kind)
    refers = kind in {"dpo", "kto"} or (kind == "grpo" and values["beta"] != 0)
    reference = "model" if is_full else "adapters_off"
    yield "workload.reference", reference if refers else None
    if kind != "grpo":
        return
    completion = values["max_completion_length"]
    yield "workload.completion_length", completion
    yield "workload.sequence_length", values["max_length"] + completion
    rollout = "workload.rollout"
    yield f"{rollout}.engine", "vllm" if values["use_vllm"] else "transformers"
    rows = values["per_device_train_batch_size"] * values["steps_per_generation"]
    if not values["use_vllm"]:
        yield f"{rollout}.num_sequences", rows
        return
    yield f"{rollout}.max_num_sequences", rows * values["vllm_tensor_parallel_size"]
    yield f"{rollout}.gpu_memory_fraction", values["vllm_gpu_memory_utilization"]
    yield f"{rollout}.sleep_level", values["sleep_level"]
    yield f"{rollout}.enforce_eager", values["vllm_enforce_eager"]
    yield f"{rollout}.offload_parameters", values["offload_model"]
    yield f"{rollout}.offload_optimizer", values["offload_optimizer"]


FIELDS: Mapping[str, Callable[[Values], Iterator[tuple[str, object]]]] = {
    "axolotl": list_axolotl_fields,
    "llamafactory": list_llamafactory_fields,
    "trl": list_trl_fields,
    "accelerate": list_accelerate_fields,
    "ms_swift": list_ms_swift_fields,
}
"""By the name of the parser."""


def list_differences(
    parser: str, values: Values, question: Mapping[str, Any]
) -> list[tuple[str, object, object]]:
    """Return fields whose value is another in the question: the field, the parser's, ours."""
    differences: list[tuple[str, object, object]] = []
    for field, expected in FIELDS[parser](values):
        actual = get_field(question, field)
        if not _is_same(expected, actual):
            differences.append((field, expected, actual))
    return differences


def get_field(question: Mapping[str, Any], field: str) -> object:
    """Return the value at a dotted path of a question, None where it has none."""
    value: object = question
    for name in field.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _is_same(expected: object, actual: object) -> bool:
    """Return whether two values mean the same; None is a field's default."""
    if expected is None or expected is False:
        return actual in (None, "none", "torch", 1, False)
    if isinstance(expected, list) and isinstance(actual, list):
        return sorted(map(str, expected)) == sorted(map(str, actual))
    return expected == actual


def _list_same(values: Values) -> Iterator[tuple[str, object]]:
    yield from ((_SAME[key], value) for key, value in values.items() if key in _SAME)


def _list_adapters(values: Values, rank: str, targets: str) -> Iterator[tuple[str, object]]:
    yield "workload.lora.rank", values.get(rank, 8)
    named = values.get(targets)
    if named in (["all"], ["all-linear"], "all", "all-linear"):
        yield "workload.lora.target_modules", "all-linear"
    elif isinstance(named, str):
        names = list_pattern_names(named)
        if names is not None:  # others are asked for
            yield "workload.lora.target_modules", names
    elif named and not values.get("lora_target_linear"):
        yield "workload.lora.target_modules", named
    for name in ("dora", "rslora"):
        if values.get(f"use_{name}") or values.get(f"peft_use_{name}"):
            yield "workload.lora.variant", name


def _is_true(values: Values, name: str) -> bool:
    return str(values.get(f"fsdp_{name}")).casefold() == "true"
