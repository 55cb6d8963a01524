"""LitGPT's fine-tuning scripts as a command (0.5.13, ``litgpt/args.py``)."""

from service.estimator.values.dtypes import DType
from service.estimator.values.releases.litgpt import TARGETS
from service.estimator.values.workload import Method, TrainWorkload

_PRECISIONS = {DType.BF16: "bf16-true", DType.FP16: "16-true", DType.FP32: "32-true"}
_OPTIMIZERS = {
    "adamw": "AdamW",
    "adamw_bnb": "bitsandbytes.optim.AdamW",
    "adamw_8bit": "bitsandbytes.optim.AdamW8bit",
    "paged_adamw": "bitsandbytes.optim.PagedAdamW",
    "paged_adamw_8bit": "bitsandbytes.optim.PagedAdamW8bit",
    "sgd": "SGD",
}


def render_litgpt_command(model: str, workload: TrainWorkload) -> tuple[str, ...]:
    """Return the command of a script.

    ``model`` is a repository, or a folder of weights.
    """
    full = workload.method is Method.FULL
    script = f"finetune_{workload.peft or ('full' if full else 'lora')}"
    steps = workload.gradient_accumulation_steps
    options: dict[str, str | int | float | None] = {
        "precision": _PRECISIONS[workload.precision.param_dtype],
        "optimizer": _OPTIMIZERS.get(workload.optimizer),
        "train.micro_batch_size": workload.micro_batch_size,
        "train.global_batch_size": workload.micro_batch_size * steps,
        "train.max_seq_length": workload.sequence_length,
    }
    options |= _list_adapter_options(workload)
    pairs = ((f"--{name}", str(value)) for name, value in options.items() if value is not None)
    return ("litgpt", script, model, *(word for pair in pairs for word in pair))


def list_unexpressed(workload: TrainWorkload) -> tuple[str, ...]:
    """Return parts of a workload that the command does not say."""
    if workload.optimizer in _OPTIMIZERS:
        return ()
    return (f"{workload.optimizer} needs a class_path and its init_args in a file for --config",)


def _list_adapter_options(workload: TrainWorkload) -> dict[str, str | int | float | None]:
    lora = workload.lora
    if lora is None:
        return {}
    named = TARGETS[:-1] if lora.targets is None else lora.targets
    switches: dict[str, str | int | float | None] = {
        f"lora_{word}": "true" if word in named else "false" for word in TARGETS
    }
    packs = workload.method is Method.QLORA
    scheme = "bnb.nf4-dq" if workload.double_quantization else "bnb.nf4"
    return {
        "quantize": scheme if packs else None,
        "lora_r": lora.rank,
        "lora_dropout": lora.dropout,
        **switches,
    }
