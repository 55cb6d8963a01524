"""LitGPT's fine-tuning scripts as a command (0.5.13, ``litgpt/args.py``)."""

from service.estimator.model.architecture import Architecture
from service.estimator.model.weights.scheme import Packing
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


def render_litgpt_command(
    name: str, model: Architecture, workload: TrainWorkload
) -> tuple[str, ...]:
    """Return the command of a script.

    ``name`` is a repository, or a folder of weights.
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
        "quantize": _find_scheme(model, workload),
    }
    options |= _list_adapter_options(workload)
    pairs = ((f"--{name}", str(value)) for name, value in options.items() if value is not None)
    return ("litgpt", script, name, *(word for pair in pairs for word in pair))


def list_unexpressed(model: Architecture, workload: TrainWorkload) -> tuple[str, ...]:
    """Return parts of a workload that the command does not say."""
    notes: tuple[str, ...] = ()
    if workload.optimizer not in _OPTIMIZERS:
        notes = (
            f"{workload.optimizer} needs a class_path and its init_args in a file for --config",
        )
    if _find_scheme(model, workload) is not None and workload.optimizer != "paged_adamw":
        # litgpt/utils.py, instantiate_bnb_optimizer
        notes += (f"LitGPT steps packed models by paged_adamw, not {workload.optimizer}",)
    return notes


def _find_scheme(model: Architecture, workload: TrainWorkload) -> str | None:
    """Return the word for weights that method or config pack."""
    if workload.method is Method.FULL:
        return None
    if workload.method is Method.QLORA:
        return "bnb.nf4-dq" if workload.double_quantization else "bnb.nf4"
    scheme = model.quantization
    if scheme is None or scheme.packing is not Packing.BLOCKS_4BIT:
        return None
    return "bnb.nf4-dq" if scheme.double else "bnb.nf4"


def _list_adapter_options(workload: TrainWorkload) -> dict[str, str | int | float | None]:
    lora = workload.lora
    if lora is None:
        return {}
    named = TARGETS[:-1] if lora.targets is None else lora.targets
    switches: dict[str, str | int | float | None] = {
        f"lora_{word}": "true" if word in named else "false" for word in TARGETS
    }
    return {"lora_r": lora.rank, "lora_dropout": lora.dropout, **switches}
