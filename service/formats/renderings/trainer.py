"""Arguments of transformers' Trainer, models, PEFT and bitsandbytes.

transformers 5.23, peft 0.21.
"""

import json
from collections.abc import Mapping
from types import MappingProxyType

from service.estimator.values.batches import Evaluation, SequencePacking
from service.estimator.values.dtypes import DType
from service.estimator.values.losses import (
    DEFAULT_LOSSES,
    LOG_PROB_LOSSES,
    Kernels,
    Loss,
    Reference,
    Trainer,
)
from service.estimator.values.optimizers import COMPRESSING, TRAINER_NAMES, OptimizerName
from service.estimator.values.workload import Attention, Checkpointing, Lora, Method, TrainWorkload
from service.formats.renderings.policies import list_policy_notes

TORCH_NAMES: Mapping[DType, str] = MappingProxyType(
    {DType.FP32: "float32", DType.BF16: "bfloat16", DType.FP16: "float16"}
)
_SAME_NAMES = (
    OptimizerName.PAGED_ADAMW_8BIT,
    OptimizerName.LION_8BIT,
    OptimizerName.PAGED_LION_8BIT,
    OptimizerName.ADEMAMIX,
    OptimizerName.ADEMAMIX_8BIT,
    OptimizerName.PAGED_ADEMAMIX_8BIT,
    OptimizerName.ADAFACTOR,
    OptimizerName.SGD,
    OptimizerName.ADAGRAD,
    OptimizerName.RMSPROP,
    OptimizerName.SCHEDULE_FREE_ADAMW,
    OptimizerName.SCHEDULE_FREE_RADAM,
    OptimizerName.SCHEDULE_FREE_SGD,
    OptimizerName.STABLE_ADAMW,
    OptimizerName.GALORE_ADAMW,
)
OPTIMIZERS: Mapping[str, str] = MappingProxyType(
    {name.value: word for word, name in TRAINER_NAMES.items()}
    | {name.value: name.value for name in _SAME_NAMES}
)
"""Names of optimizers for ``--optim`` (``OptimizerNames``); one that is missing is built by the
script.
"""
_TRAINERS = {
    Trainer.DPO: "the script trains with TRL's DPOTrainer, whose batch size counts pairs",
    Trainer.KTO: "the script trains with TRL's KTOTrainer, whose batch size counts sequences",
    Trainer.ORPO: "the script trains with TRL's ORPOTrainer, whose batch size counts pairs",
    Trainer.CPO: "the script trains with TRL's CPOTrainer, whose batch size counts pairs",
    Trainer.SIMPO: (
        "the script trains with TRL's CPOTrainer, loss_type simpo and cpo_alpha 0, whose batch "
        "size counts pairs"
    ),
    Trainer.REWARD: "the script trains with TRL's RewardTrainer, whose batch size counts pairs",
    Trainer.GRPO: "the script trains with TRL's GRPOTrainer, whose batch size counts completions",
}
_PACKINGS = {
    SequencePacking.PADDING_FREE: "the script sets SFTConfig(padding_free=True)",
    SequencePacking.PACKED: "the script sets SFTConfig(packing=True)",
}
_REFERENCES = {
    Reference.MODEL: "the script gives {}Trainer a ref_model, or lets it load one",
    Reference.ADAPTERS_OFF: "the script gives {}Trainer a peft_config and no ref_model",
    Reference.PRECOMPUTED: "the script sets {}Config(precompute_ref_log_probs=True)",
}
_ATTENTION = {Attention.EAGER: "eager", Attention.FLASH: "flash_attention_2"}


def render_training_arguments(
    workload: TrainWorkload, *, checkpoints: bool
) -> dict[str, str | int | float | bool]:
    """Return the fields of ``TrainingArguments``.

    With ``checkpoints`` the Trainer recomputes, and not FSDP.
    """
    precision = workload.precision
    recomputes = checkpoints and workload.activation_checkpointing is not Checkpointing.NONE
    arguments: dict[str, str | int | float | bool] = {
        "per_device_train_batch_size": workload.micro_batch_size,
        "gradient_accumulation_steps": workload.gradient_accumulation_steps,
        "max_grad_norm": 1.0 if workload.gradient_clipping else 0.0,
        "gradient_checkpointing": recomputes,
    }
    if recomputes:
        arguments["gradient_checkpointing_kwargs"] = json.dumps(
            {"use_reentrant": workload.reentrant_checkpointing}
        )
    if workload.kernels is Kernels.LIGER:
        arguments["use_liger_kernel"] = True
    if workload.compile:
        arguments["torch_compile"] = True
    if workload.deterministic:
        arguments["full_determinism"] = True
    if workload.save_total_limit is not None:
        arguments["save_total_limit"] = workload.save_total_limit
    if workload.evaluation is not None:
        arguments |= _render_evaluation(workload.evaluation)
    if workload.optimizer in OPTIMIZERS:
        arguments["optim"] = OPTIMIZERS[workload.optimizer]
    if precision.autocast:
        arguments["bf16" if precision.compute_dtype is DType.BF16 else "fp16"] = True
    return arguments


def _render_evaluation(evaluation: Evaluation) -> dict[str, str | int | float | bool]:
    """Return the arguments of an evaluation as it is counted."""
    results: dict[str, str | int | float | bool] = (
        {"eval_accumulation_steps": evaluation.kept_batches}
        if evaluation.kept_batches
        else {"prediction_loss_only": True}
    )
    return {
        "eval_strategy": "steps",
        "per_device_eval_batch_size": evaluation.batch_size,
        **results,
    }


def render_model_keywords(workload: TrainWorkload) -> dict[str, object]:
    """Return the keywords of ``from_pretrained``."""
    keywords: dict[str, object] = {
        "dtype": TORCH_NAMES[workload.precision.param_dtype],
        "attn_implementation": _ATTENTION.get(workload.attention, "sdpa"),
    }
    if workload.method is Method.QLORA:
        keywords["quantization_config"] = _render_quantization(workload)
    return keywords


def _render_quantization(workload: TrainWorkload) -> dict[str, object]:
    """Return the arguments of ``BitsAndBytesConfig``, or of ``GPTQConfig`` for 2 bits."""
    if workload.quantization_bits == 8:  # noqa: PLR2004 - bits of a byte
        return {"load_in_8bit": True}
    if workload.quantization_bits == 2:  # noqa: PLR2004 - as the request says
        return {"quant_method": "gptq", "bits": 2, "group_size": 128}
    return {
        "load_in_4bit": True,
        "bnb_4bit_quant_type": "nf4",
        "bnb_4bit_use_double_quant": workload.double_quantization,
        "bnb_4bit_compute_dtype": TORCH_NAMES[workload.precision.compute_dtype],
    }


def render_adapter_keywords(lora: Lora, task_type: str) -> dict[str, object]:
    """Return the keywords of ``LoraConfig``."""
    variant = {name: True for name in ("dora", "rslora") if lora.variant == name}
    return {
        "r": lora.rank,
        "target_modules": "all-linear" if lora.targets is None else list(lora.targets),
        "task_type": task_type,
        **{f"use_{name}": on for name, on in variant.items()},
        **({"lora_dropout": lora.dropout} if lora.dropout else {}),
    }


def list_script_notes(workload: TrainWorkload) -> tuple[str, ...]:
    """Return notes on settings that only a training script can make."""
    notes = [f"the script makes sequences of {workload.sequence_length} tokens"]
    if workload.optimizer not in OPTIMIZERS and workload.optimizer not in COMPRESSING:
        notes.append(
            f"the script builds the optimizer {workload.optimizer}, which --optim has no word for"
        )
    if workload.precision.master_dtype is not None:
        notes.append(
            f"precision {workload.precision.name}: fp32 masters of 16-bit weights are the engine's "
            "or the script's"
        )
    notes += _list_trainer_notes(workload)
    notes += _list_kernel_notes(workload)
    if workload.method is Method.QLORA and workload.fp32_norms_and_head is not False:
        notes.append("the script calls PEFT's prepare_model_for_kbit_training")
    if workload.precision.autocast and not workload.fp32_outputs:
        notes.append(
            "fp32_outputs false is a loop that enters autocast itself: Trainer casts what the "
            "model returns"
        )
    if workload.attention in {Attention.EFFICIENT, Attention.MATH}:
        notes.append(
            "the script chooses SDPA's kernel: torch.nn.attention.sdpa_kernel, "
            f"{workload.attention.value}"
        )
    if workload.selective_every is not None:
        notes.append(f"the script recomputes one layer in every {workload.selective_every}")
    if workload.evaluation is not None:
        notes += _list_evaluation_notes(workload.evaluation, workload.sequence_length)
    if workload.frozen:
        notes.append(f"the script freezes {', '.join(workload.frozen)}")
    return tuple(notes)


def _list_kernel_notes(workload: TrainWorkload) -> list[str]:
    """Return notes on kernels that another program brings."""
    notes = []
    if workload.kernels is Kernels.FOAK:
        notes.append(
            "the script trains under fms-acceleration, whose plugin fused_ops_and_kernels has "
            "fast_loss, fast_rms_layernorm, fast_rope_embeddings and, over quantised weights, "
            "fused_lora true"
        )
    if workload.lora is not None and workload.lora.kernels:
        switches = ", ".join(f"lora_{kernel.value}_kernel" for kernel in workload.lora.kernels)
        notes.append(f"axolotl runs adapters by kernels of its own: {switches} true in its file")
    return notes


def _list_evaluation_notes(evaluation: Evaluation, trained_length: int) -> list[str]:
    length = evaluation.sequence_length or trained_length
    notes = [f"the script evaluates sequences of {length} tokens"]
    if evaluation.kept_batches:
        notes.append("the script gives the Trainer compute_metrics, which logits are kept for")
    if evaluation.loss is Loss.FULL_LOGITS:
        notes.append("an evaluation makes all logits, as with Liger's kernels beside the Trainer")
    return notes


_SCORES = {
    Loss.SELECTIVE: ("TRL before 1.15 scores so, with all logits",),
    Loss.FULL_LOGITS: ("LLaMA-Factory's trainer scores so, with all logits in fp32",),
}
"""Whose losses of preferences are not those of the script's trainer."""


def _list_trainer_notes(workload: TrainWorkload) -> list[str]:
    """Return notes on the trainer, its loss and how it collates."""
    notes = []
    if workload.trainer is not Trainer.SUPERVISED:
        notes.append(_TRAINERS[workload.trainer])
        if workload.trainer is Trainer.GRPO:
            notes += list_policy_notes(workload)
        elif workload.reference is not None:
            name = workload.trainer.value.upper()
            notes.append(_REFERENCES[workload.reference].format(name))
            notes += _SCORES.get(workload.loss, ())
        elif workload.loss is Loss.SELECTIVE:
            notes.append("TRL before 1.14 scores so, without a kernel of its own")
    elif workload.loss in LOG_PROB_LOSSES:
        notes.append(f"the script trains with TRL's SFTTrainer, loss_type {workload.loss.value}")
    elif workload.loss is not DEFAULT_LOSSES[workload.kernels]:
        notes.append(f"the script computes the loss as {workload.loss.value}")
    if workload.packing is not SequencePacking.NONE:
        notes.append(_PACKINGS[workload.packing])
    return notes
