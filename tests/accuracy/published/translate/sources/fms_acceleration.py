"""IBM's fms-acceleration benchmarks on A100-80GB: HF Trainer with plugins, one row per
configuration.

Packed rows alone: the others have batches of the data's own lengths. The plugin that brings a fused
cross entropy brings fused norms and rotation along (``FastKernelsAccelerationPlugin``). The
trainer's checkpoints are reentrant, which release 4.48 takes for granted. The window of Mistral, as
long as the sequences, is left out: SDPA would make a mask of it, but flash_attention_2 takes a
number, and none that is not exceeded. ``nvidia-smi`` is the mean over GPUs of the peak less the
first reading.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from service.catalog.models import load_config, resolve_model
from tests.accuracy.published.rows import Untranslatable
from tests.accuracy.published.translate._training import adapters, autocast, case

_GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True, "sym": True}
_WITHOUT_GROUPS = {"TheBloke/Mixtral-8x7B-Instruct-v0.1-GPTQ", "TheBloke/Llama-2-70B-GPTQ"}
"""The main branches of the large checkpoints have one scale per row, which their model cards say
saves memory.
"""
_BASES = {
    "TheBloke/Mistral-7B-v0.1-GPTQ": "mistral-7b-v0.1",
    "TheBloke/Mixtral-8x7B-Instruct-v0.1-GPTQ": "mixtral-8x7b",
    "TheBloke/Llama-2-70B-GPTQ": "llama-2-70b",
}
_WINDOWED = "mistralai/Mistral-7B-v0.1"
_SHORT = {"float16": "fp16", "bfloat16": "bf16"}


def translate(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the run as a question."""
    kernels, batch, precision = row["kernels"], row["batch"], row["precision"]
    if "santacoder" in row["model"]["hf_id"] and batch["packing"]:
        message = "gpt_bigcode's own loss in 16 bits, before transformers 4.49"
        raise Untranslatable(message)
    if not batch["packing"]:
        message = "batches of the data's own lengths"
        raise Untranslatable(message)
    if reason := _find_unworded(row):
        raise Untranslatable(reason)
    if row["framework_config"] == "baseline-peft-bnb" and row["parallelism"]["dp_shard"] == 1:
        message = (
            "fp32 norms beside 16-bit tables (TRL's peft_module_casting_to_bf16), for which the "
            "contract has no word"
        )
        raise Untranslatable(message)
    dtype = _SHORT[precision["torch_dtype"]]
    adapts = row["task"] != "full_finetune"
    trains_amp = precision["trainer_bf16"] or precision["trainer_fp16"]
    workload = {
        "framework_version": row["software"]["transformers"],
        "method": "lora"
        if _is_gptq(row)
        else {"full_finetune": "full"}.get(row["task"], row["task"]),
        "fp32_norms_and_head": False,
        "precision": autocast(dtype) if trains_amp and adapts else dtype,
        "optimizer": "adamw",
        "micro_batch_size": batch["micro_batch"],
        "sequence_length": batch["seq_len"],
        "gradient_accumulation_steps": batch["grad_accum"],
        "activation_checkpointing": "full",
        "reentrant_checkpointing": True,
        "attention": "flash",
        "loss": "fused_cross_entropy" if kernels["foak"] else "full_logits",
    }
    if kernels["foak"]:
        workload["kernels"] = "foak"
    if adapts:
        workload["lora"] = _named(row)
    ranks = row["parallelism"]["dp_shard"]
    layout = {"data_parallel": ranks, "sharding": "fsdp1", "zero_stage": 3} if ranks > 1 else {}
    yield case(
        {**row, "model": _plain(row)},
        workload,
        layout,
        scores_as="adapters" if adapts else "training",
        **_model(row),
    )


def _find_unworded(row: Mapping[str, Any]) -> str | None:
    """Return what a row has fused that the contract has no word for."""
    kernels = row["kernels"]
    if kernels["scattermoe"]:
        return "fused experts, for which the contract has no word"
    if not (kernels["foak"] or kernels["fused_lora"]):
        return None
    if "bigcode" in row["model"]["hf_id"]:
        return "foak's loss without its norms and rotation (gpt_bigcode)"
    return None


def _named(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the adapters on the targets that the model has: the benchmark names those of all its
    models.
    """
    words = adapters(row)
    model_type = "c_attn" if "santacoder" in row["model"]["hf_id"] else "o_proj"
    present = {"c_attn"} if model_type == "c_attn" else {"q_proj", "k_proj", "v_proj", "o_proj"}
    return words | {"target_modules": sorted(present & set(words.get("target_modules", present)))}


def _is_gptq(row: Mapping[str, Any]) -> bool:
    return "GPTQ" in ((row["quantization"] or {}).get("scheme") or "")


def _plain(row: Mapping[str, Any]) -> Mapping[str, Any]:
    name = row["model"]["hf_id"]
    return {**row["model"], "hf_id": _BASES.get(name, name)}


def _model(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the model where the row's differs from the catalogue's: by its window, or by what is
    said of its weights.
    """
    name = row["model"]["hf_id"]
    packed = name in _BASES
    if not packed and name != _WINDOWED:
        return {}
    config = {**load_config(resolve_model(_BASES.get(name, name))), "sliding_window": None}
    group = {"group_size": -1} if name in _WITHOUT_GROUPS else {}
    return {
        "model": {"hf_config": config | ({"quantization_config": _GPTQ | group} if packed else {})}
    }
