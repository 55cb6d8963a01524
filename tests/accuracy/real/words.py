"""Asks about a recorded client in the words of the HTTP contract."""

from collections.abc import Mapping
from typing import Any

from tests.accuracy.real.rows import ClientRun

Words = dict[str, Any]
_OPTIMIZERS = {
    "adamw_torch": "adamw",
    "adamw_torch_fused": "adamw_fused",
    "adamw_bnb_8bit": "adamw_8bit",
}
"""Trainer's names of ``optim`` that are not the contract's."""


def write_body(run: ClientRun, gpu: str) -> Words:
    """Return the body of ``POST /v1/fit``."""
    write = _write_generation if run.kind == "gen" else _write_training
    return {
        "model": run.model,
        "gpu": gpu,
        "workload": write(run),
        "remedies": False,
    }


def _write_training(run: ClientRun) -> Words:
    """Return a workload of Trainer, which clips gradients at 1.0 unless it is told not to."""
    arguments = run.arguments
    optimizer = arguments["optim"]
    words: Words = {
        "task": "train",
        "sequence_length": arguments["seq"],
        "micro_batch_size": arguments["batch"],
        "gradient_accumulation_steps": arguments.get("accum", 1),
        "precision": _get_precision(arguments),
        "optimizer": _OPTIMIZERS.get(optimizer, optimizer),
        "activation_checkpointing": "full" if arguments.get("gc") else "none",
        "gradient_clipping": True,
    }
    if "target" in arguments:
        words["decoder_length"] = arguments["target"]
    if arguments.get("compile"):
        words["compile"] = True
    if arguments.get("liger"):
        words["kernels"] = "liger"
    if run.kind == "sft":
        words["loss"] = "chunked_nll"
    return words | _write_adapters(run.arguments, trl=run.kind == "sft")


def _get_precision(arguments: Mapping[str, Any]) -> str:
    """Return the policy of loaded weights under ``bf16=True`` or ``fp16=True``."""
    if arguments["load"] == "fp32":
        return "amp_fp16" if arguments.get("fp16") else "amp_bf16"
    return "bf16_autocast" if arguments.get("bf16") else "bf16"


def _write_adapters(arguments: Mapping[str, Any], *, trl: bool) -> Words:
    """Return the words of adapters.

    On quantised weights TRL casts them to bf16, and does not cast the norms to fp32.
    """
    if "lora" not in arguments:
        return {}
    targets, quantised = arguments["targets"], arguments["load"] == "nf4"
    lora: Words = {"rank": arguments["lora"]}
    if targets != "all-linear":
        lora["target_modules"] = targets
    words: Words = {"method": "qlora" if quantised else "lora", "lora": lora}
    if quantised and trl:
        lora["dtype"] = "bf16"
        words["fp32_norms_and_head"] = False
    return words


def _write_generation(run: ClientRun) -> Words:
    arguments = run.arguments
    load = arguments["load"]
    words: Words = {
        "task": "serve",
        "engine": "transformers",
        "num_sequences": arguments["batch"],
        "prompt_tokens": arguments["prompt"],
        "output_tokens": arguments["new"],
        "weight_dtype": "bf16" if load == "nf4" else load,
        "kv_cache_dtype": "bf16" if load == "nf4" else load,
    }
    return words | {"quantization": "nf4"} if load == "nf4" else words
