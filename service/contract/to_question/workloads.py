"""Requests as workloads and layouts of the estimator.

Every default is named, nothing unknown is dropped.
"""

import re
from dataclasses import fields
from typing import Any

from msgspec import UnsetType

from service.contract.schemas.fields import MAX_TOKENS
from service.contract.schemas.methods import (
    EvaluationRequest,
    LoraRequest,
    OffloadRequest,
    PrecisionRequest,
    SelectiveRequest,
)
from service.contract.schemas.workload import TrainRequest, WorkloadRequest
from service.contract.to_question.defaults import apply_defaults, copy_set_fields
from service.contract.to_question.drafts import read_critic
from service.contract.to_question.inputs import read_sequence
from service.contract.to_question.run_lengths import read_run_length
from service.contract.to_question.serving import read_serving
from service.estimator.values.adapters.lora_kernels import LoraKernel
from service.estimator.values.batches import Evaluation, Lengths, count_lengths
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.generation import Rollout
from service.estimator.values.losses import (
    DEFAULT_LOSSES,
    REFERRING_TRAINERS,
    UNREFERRED_TRAINERS,
    Kernels,
    Loss,
    Reference,
    Trainer,
)
from service.estimator.values.megatron import MegatronOptions
from service.estimator.values.precision import POLICIES, Precision
from service.estimator.values.workload import (
    Attention,
    Checkpointing,
    Framework,
    Lora,
    Method,
    Offload,
    TrainWorkload,
    Workload,
)

_LENGTH = re.compile("[1-9][0-9]{0,8}", re.ASCII)
ADAPTER_METHODS = frozenset({Method.LORA, Method.QLORA})

TRAIN_DEFAULTS: dict[str, Any] = {
    "framework": Framework.TRANSFORMERS,
    "method": Method.FULL,
    "precision": "bf16_mixed",
    "optimizer": "adamw",
    "micro_batch_size": 1,
    "gradient_accumulation_steps": 1,
    "activation_checkpointing": Checkpointing.NONE,
    "attention": Attention.SDPA,
    "loss": Loss.FULL_LOGITS,
}
_QLORA_PRECISION = "bf16_autocast"
"""What ``bf16=True``, TRL's default, makes of weights that were loaded in bf16."""
_PREPARED = (
    "workload.fp32_norms_and_head = true, by PEFT's prepare_model_for_kbit_training, which TRL "
    "does not call; false where FSDP or ZeRO-3 shards the weights"
)
_CAST_BACK = (
    "workload.fp32_norms_and_head = false: axolotl casts norms and head back for its kernels"
)
_UNTRAINED_NORMS = "workload.frozen = norm: foak's kernel returns no gradient of a norm's weight"
LORA_DEFAULTS: dict[str, Any] = {
    "rank": 16,
    "target_modules": "all-linear",
    "dtype": DType.FP32,
    "variant": "lora",
    "dropout": 0.0,
}

_WORST_BATCH = (
    "worst batch = the longest of workload.sequence_lengths together: padded to the longest, or "
    "one after another without padding"
)
_ALL_SCORED = "every token of a pair is one of its completion: tokens of a prompt take less"
_ALL_GENERATED = "every token of a sequence is one of its completion: a prompt's take less"
_FUSED_SCORES = (
    "loss chunked_nll: TRL 1.15 and later score within the head; before it loss selective holds "
    "all logits, and LLaMA-Factory's full_logits more"
)
_WHOLE_SCORES = (
    "loss full_logits: TRL 1.14 and later read log-probabilities by a kernel of their own; before "
    "it loss selective holds more"
)
_PARTS: tuple[tuple[str, type[Rollout | MegatronOptions], tuple[str, ...]], ...] = (
    ("rollout", Rollout, tuple(field.name for field in fields(Rollout))),
    ("megatron", MegatronOptions, tuple(field.name for field in fields(MegatronOptions))),
)
"""Parts of a request with the fields of their values."""
_TRAIN_OPTIONAL = (
    "packing",
    "trainer",
    "reference",
    "completion_length",
    "log_prob_batch_size",
    "entropy_bonus",
    "kernels",
    "keeps_logits",
    "fp32_outputs",
    "padding_mask",
    "reentrant_checkpointing",
    "gradient_clipping",
    "allocator",
    "fp32_norms_and_head",
    "double_quantization",
    "quantization_bits",
    "optimizer_in_backward",
    "compile",
    "deterministic",
    "float8",
    "framework_version",
    "decoder_length",
    "num_images",
    "image_tokens",
    "audio_frames",
    "num_tokens",
    "save_total_limit",
)


def read_workload(request: WorkloadRequest) -> tuple[Workload, list[str]]:
    """Return the workload and the defaults it uses.

    Each default is a line.
    """
    return _read_train(request) if isinstance(request, TrainRequest) else read_serving(request)


def _read_train(request: TrainRequest) -> tuple[TrainWorkload, list[str]]:
    quantises = request.method is Method.QLORA
    defaults = TRAIN_DEFAULTS | _list_client_defaults(request)
    if quantises:
        defaults |= {"precision": _QLORA_PRECISION}
    values, assumptions = apply_defaults(request, defaults, "workload")
    if quantises and isinstance(request.fp32_norms_and_head, UnsetType):
        is_cast_back = bool(_list_kernels(request.lora))
        values["fp32_norms_and_head"] = False if is_cast_back else None
        assumptions.append(_CAST_BACK if is_cast_back else _PREPARED)
    values["precision"] = _read_precision(values["precision"], assumptions)
    if isinstance(checkpointing := values["activation_checkpointing"], SelectiveRequest):
        values |= {
            "activation_checkpointing": Checkpointing.SELECTIVE,
            "selective_every": checkpointing.selective,
        }
    values["offload"] = _read_offload(request.offload, assumptions)
    values["lora"] = _read_lora(request.lora, values["method"], assumptions)
    if not isinstance(request.peft, UnsetType):
        values["peft"] = request.peft.type
    if not isinstance(request.frozen, UnsetType):
        values["frozen"] = tuple(request.frozen)
    elif request.kernels is Kernels.FOAK and values["method"] is Method.FULL:
        values["frozen"] = ("norm",)
        assumptions.append(_UNTRAINED_NORMS)
    values |= copy_set_fields(request, _TRAIN_OPTIONAL)
    if not values["precision"].autocast:
        values.pop("fp32_outputs", None)  # Without autocast it says nothing, and names no curve.
    if not isinstance(request.sequence_lengths, UnsetType):
        values["sequence_lengths"] = _read_lengths(request.sequence_lengths)
        assumptions.append(_WORST_BATCH)
    assumptions += _list_scored(request)
    values |= read_sequence(request, "sequence_length")
    values |= {
        name: kind(**copy_set_fields(part, names))
        for name, kind, names in _PARTS
        if not isinstance(part := getattr(request, name), UnsetType)
    }
    values["critic"] = read_critic(request.critic)
    values["evaluation"] = _read_evaluation(request.evaluation, assumptions)
    workload = TrainWorkload(**values)
    workload, counted = read_run_length(request, workload)
    return workload, [*assumptions, counted] if counted else assumptions


def _list_scored(request: TrainRequest) -> list[str]:
    """Return what is taken for granted of the scored tokens."""
    if request.trainer is Trainer.DPO:
        return [_ALL_SCORED, *_list_scoring(request)]
    if request.trainer in UNREFERRED_TRAINERS:
        return [_WHOLE_SCORES] if isinstance(request.loss, UnsetType) else []
    if request.trainer is Trainer.KTO:
        return [_ALL_GENERATED, *_list_scoring(request)]
    is_whole = isinstance(request.completion_length, UnsetType)
    return [_ALL_GENERATED] if request.trainer is Trainer.GRPO and is_whole else []


def _list_scoring(request: TrainRequest) -> list[str]:
    return [_FUSED_SCORES] if isinstance(request.loss, UnsetType) else []


def _read_lengths(lengths: list[int] | dict[str, int]) -> Lengths:
    if isinstance(lengths, list):
        return count_lengths(lengths)
    for length in lengths:
        # What is too long for a number is not made one.
        if _LENGTH.fullmatch(length) is None or int(length) > MAX_TOKENS:
            message = (
                f"{length[:20]!r} is no number of tokens from 1 to {MAX_TOKENS}; say "
                "{'512': 10, '2048': 3}"
            )
            raise InvalidInputError(message, field="workload.sequence_lengths")
    return tuple(sorted(((int(key), count) for key, count in lengths.items()), reverse=True))


def _list_client_defaults(request: TrainRequest) -> dict[str, Any]:
    """Return the defaults that follow from whose kernels run and towards what.

    TRL's trainers of DPO and KTO run without adapters where there are some, else a second model.
    """
    loss = DEFAULT_LOSSES[request.kernels or Kernels.TORCH]
    if request.trainer is Trainer.REWARD or request.trainer in UNREFERRED_TRAINERS:
        return {"loss": Loss.FULL_LOGITS}
    if request.trainer is Trainer.GRPO:
        return {"loss": Loss.CHUNKED_NLL}
    if request.trainer not in REFERRING_TRAINERS:
        return {"loss": loss}
    adapts = request.method in ADAPTER_METHODS
    reference = Reference.ADAPTERS_OFF if adapts else Reference.MODEL
    return {"loss": Loss.CHUNKED_NLL, "reference": reference}


def _read_evaluation(
    request: EvaluationRequest | UnsetType, assumptions: list[str]
) -> Evaluation | None:
    if isinstance(request, UnsetType):
        return None
    values, filled = apply_defaults(request, {"batch_size": 8}, "workload.evaluation")
    assumptions += filled
    return Evaluation(
        **values, **copy_set_fields(request, ("sequence_length", "kept_batches", "loss"))
    )


def _read_precision(precision: str | PrecisionRequest, assumptions: list[str]) -> Precision:
    if isinstance(precision, str):
        return POLICIES[precision]
    defaults: dict[str, Any] = {
        "compute_dtype": precision.param_dtype,
        "grad_dtype": precision.param_dtype,
        "optimizer_dtype": precision.master_dtype or precision.param_dtype,
        "master_dtype": None,
        "main_grad_dtype": None,
        "reduce_dtype": precision.grad_dtype or precision.param_dtype,
    }
    values, filled = apply_defaults(precision, defaults, "workload.precision")
    assumptions += filled
    return Precision(
        name="custom",
        param_dtype=precision.param_dtype,
        autocast=precision.autocast,
        main_grad_persistent=precision.main_grad_persistent,
        **values,
    )


def _read_offload(request: OffloadRequest | UnsetType, assumptions: list[str]) -> Offload:
    if isinstance(request, UnsetType):
        assumptions.append("workload.offload = none")
        return Offload()
    return Offload(
        optimizer=request.optimizer, parameters=request.parameters, activations=request.activations
    )


def _read_lora(
    request: LoraRequest | UnsetType, method: Method, assumptions: list[str]
) -> Lora | None:
    if isinstance(request, UnsetType) and method not in ADAPTER_METHODS:
        return None
    values, defaults = apply_defaults(request or LoraRequest(), LORA_DEFAULTS, "workload.lora")
    assumptions += defaults
    targets = values.pop("target_modules")
    kernels = _list_kernels(request)
    return Lora(
        targets=None if targets == "all-linear" else tuple(targets), kernels=kernels, **values
    )


def _list_kernels(request: LoraRequest | UnsetType) -> tuple[LoraKernel, ...]:
    """Return axolotl's kernels in one order, each once."""
    if isinstance(request, UnsetType) or isinstance(request.kernels, UnsetType):
        return ()
    return tuple(kernel for kernel in LoraKernel if kernel in request.kernels)
