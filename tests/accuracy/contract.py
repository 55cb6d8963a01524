"""Asks a traced case's question in the words of the HTTP contract."""

from dataclasses import dataclass, field

from service.estimator.values.dtypes import DType
from service.estimator.values.generation import Client
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES, Precision
from service.estimator.values.workload import (
    Attention,
    Cache,
    Checkpointing,
    Lora,
    Method,
    ServeWorkload,
    TrainWorkload,
)
from tests.accuracy.cases import Options, ServingCase, StepCase


class NotInContractError(ValueError):
    """A traced option for which the contract has no word; the case is left out, and counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A workload in a layout."""

    workload: TrainWorkload | ServeWorkload
    layout: Layout = field(default_factory=Layout)


MASTER_BF16 = Precision(
    name="custom",
    param_dtype=DType.BF16,
    compute_dtype=DType.BF16,
    grad_dtype=DType.BF16,
    optimizer_dtype=DType.FP32,
    master_dtype=DType.FP32,
    main_grad_dtype=DType.FP32,
)
"""A bf16 model with fp32 master weights; fp32 gradients are made before the step and freed after
it.
"""
CAST_AT_GATHER = Precision(
    name="custom",
    param_dtype=DType.FP32,
    compute_dtype=DType.BF16,
    grad_dtype=DType.FP32,
    optimizer_dtype=DType.FP32,
)
"""FSDP2's ``MixedPrecisionPolicy(param_dtype=bfloat16)``: fp32 shards, cast when they are gathered.
"""

_PRECISIONS = {name: POLICIES[name] for name in ("bf16", "fp32", "amp_bf16")} | {
    "master_bf16": MASTER_BF16
}
_RANK_PRECISIONS = {"bf16": CAST_AT_GATHER, "pure_bf16": POLICIES["bf16"], "fp32": POLICIES["fp32"]}
_OPTIMIZERS = {
    "adamw_foreach": "adamw",
    "adamw_fused": "adamw_fused",
    "adamw_forloop": "adamw_loop",
    "adamw8bit_modelled": "adamw_8bit",
    "sgd": "sgd",
    "sgd_momentum": "sgd_momentum",
}
_ATTENTION = {"auto": Attention.SDPA} | {kernel.value: kernel for kernel in Attention}
_UNSPEAKABLE = {
    "zero_grad_to_none": (
        "zero_grad(set_to_none=False) keeps gradients between steps; the contract's steady state "
        "frees them"
    ),
    "root_reshard": (
        "the root unit resharded after forward; the contract speaks of the blocks' "
        "reshard_after_forward alone"
    ),
}


def question_of_step(case: StepCase) -> Question:
    """Return the question of a whole model's step."""
    _refuse_unspeakable(case.options)
    return Question(workload=read_training(case.options))


def question_of_rank(case: StepCase) -> Question:
    """Return the question of one rank of an FSDP2 job."""
    options = case.options
    _refuse_unspeakable(options)
    layout = Layout(
        data_parallel=options["dp"],
        tensor_parallel=options.get("tp", 1),
        zero_stage=3,
        sharding=Sharding.FSDP2,
        reshard_after_forward=options.get("reshard", True),
    )
    return Question(workload=_training(options, _RANK_PRECISIONS[options["mp"]]), layout=layout)


def question_of_serving(case: ServingCase) -> Question:
    """Return the question of a replica on transformers."""
    options = case.options
    dtype = DType(options["dtype"])
    return Question(
        workload=ServeWorkload(
            num_sequences=options["batch"],
            prompt_tokens=options["prompt"],
            output_tokens=options["new_tokens"],
            weight_dtype=dtype,
            kv_cache_dtype=dtype,
            attention=_get_served_kernel(case),
            client=Client.LOOP,
            cache=Cache(options["cache"]),
            max_model_len=options.get("max_len"),
        ),
    )


def _get_served_kernel(case: ServingCase) -> Attention:
    """Return the kernel of a traced replica.

    The tracer gave Falcon's only key head the memory-efficient kernel, which CUDA refuses.
    """
    kernel = _ATTENTION[case.options["attn"]]
    if case.model == "falcon-7b" and kernel is Attention.SDPA:
        return Attention.EFFICIENT
    return kernel


def read_training(options: Options) -> TrainWorkload:
    """Return the training step that a case's options say."""
    return _training(options, _PRECISIONS[options["precision"]])


def _training(options: Options, precision: Precision) -> TrainWorkload:
    lora = _lora(options)
    return TrainWorkload(
        sequence_length=options["seq"],
        micro_batch_size=options["batch"],
        gradient_accumulation_steps=options.get("grad_accum", 1),
        method=Method.FULL if lora is None else Method.LORA,
        precision=precision,
        optimizer=_OPTIMIZERS[options["optimizer"]],
        activation_checkpointing=Checkpointing.FULL
        if options.get("checkpointing", False)
        else Checkpointing.NONE,
        reentrant_checkpointing=options.get("checkpointing") == "reentrant",
        attention=_ATTENTION[options["attn"]],
        keeps_logits=options.get("keep_outputs", True),
        fp32_outputs=False,  # the tracer's loop entered autocast by itself, without accelerate
        padding_mask=options.get("padding_mask")
        == "padded",  # a mask of ones pads nothing, and transformers drops it
        gradient_clipping="max_grad_norm" in options,
        decoder_length=options.get("dec_seq"),
        num_images=options["images"] // options["batch"] if "images" in options else None,
        image_tokens=options.get("image_tokens"),
        lora=lora,
    )


def _lora(options: Options) -> Lora | None:
    if "lora" not in options:
        return None
    targets: list[str] | None = options.get("lora_targets")
    return Lora(rank=options["lora"], targets=None if targets is None else tuple(targets))


def _refuse_unspeakable(options: Options) -> None:
    for name, reason in _UNSPEAKABLE.items():
        if name in options:
            message = f"{name}: {reason}"
            raise NotInContractError(message)
