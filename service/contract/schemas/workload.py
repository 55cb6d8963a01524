"""Workload and layout of a request.

The whole vocabulary of the contract, modelled yet or not.
"""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from service.contract.schemas.fields import (
    Batch,
    Count,
    Length,
    Strict,
    Tokens,
    Version,
    Word,
)
from service.contract.schemas.methods import (
    EvaluationRequest,
    InputsRequest,
    LoraRequest,
    OffloadRequest,
    PeftRequest,
    PolicyName,
    PrecisionRequest,
    SelectiveRequest,
)
from service.contract.schemas.serving import ServeRequest
from service.contract.schemas.trainers import CriticRequest, MegatronRequest, RolloutRequest
from service.estimator.values.batches import SequencePacking
from service.estimator.values.losses import Kernels, Loss, Reference, Trainer
from service.estimator.values.optimizers import OptimizerName
from service.estimator.values.workload import (
    Allocator,
    Attention,
    Checkpointing,
    Framework,
    Method,
)

LengthsRequest = (
    Annotated[list[Tokens], Meta(min_length=1, max_length=65_536)]
    | Annotated[dict[str, Count], Meta(min_length=1, max_length=65_536)]
)


class TrainRequest(Strict, tag_field="task", tag="train", frozen=True, kw_only=True):
    """One training step."""

    sequence_length: Annotated[
        Length,
        Meta(description="Tokens of one sequence; only `inputs` may replace it.", examples=[4096]),
    ] = UNSET
    micro_batch_size: Annotated[
        Batch | UnsetType, Meta(description="Sequences that one data-parallel rank runs at once.")
    ] = UNSET
    gradient_accumulation_steps: Annotated[
        Count | UnsetType, Meta(description="Micro batches per optimizer step.")
    ] = UNSET
    framework: Annotated[Framework | UnsetType, Meta(description="Whose model code runs.")] = UNSET
    framework_version: Annotated[
        Version | UnsetType, Meta(description="Version of the framework.")
    ] = UNSET
    method: Annotated[Method | UnsetType, Meta(description="What is trained.")] = UNSET
    precision: Annotated[
        PolicyName | PrecisionRequest | UnsetType,
        Meta(description="A named policy or single formats."),
    ] = UNSET
    optimizer: Annotated[OptimizerName | UnsetType, Meta(description="The optimizer.")] = UNSET
    activation_checkpointing: Annotated[
        Checkpointing | SelectiveRequest | UnsetType,
        Meta(description="What backward computes again."),
    ] = UNSET
    attention: Annotated[Attention | UnsetType, Meta(description="Attention kernel.")] = UNSET
    loss: Annotated[
        Loss | UnsetType,
        Meta(
            description=(
                "How the loss treats the logits; `chunked_nll`, `nll` and `dft` are TRL's of SFT, "
                "`selective` that of its DPO, KTO and GRPO before 1.15, ORPO and CPO before 1.14."
            )
        ),
    ] = UNSET
    trainer: Annotated[
        Trainer | UnsetType,
        Meta(
            description=(
                "TRL's `dpo`, `orpo`, `cpo`, `simpo` and `reward` count pairs in "
                "`micro_batch_size`, its `kto` sequences; "
                "`grpo` learns from what the policy generates."
            )
        ),
    ] = UNSET
    reference: Annotated[
        Reference | UnsetType,
        Meta(
            description=(
                "Where `dpo` or `kto` has its reference from; without one `grpo` has no penalty."
            )
        ),
    ] = UNSET
    completion_length: Annotated[
        Tokens | UnsetType,
        Meta(description="Of `grpo`: generated tokens of a sequence; default all of them."),
    ] = UNSET
    log_prob_batch_size: Annotated[
        Batch | UnsetType,
        Meta(
            description=(
                "Of `grpo`: sequences of the forward passes before the update; default "
                "`micro_batch_size`."
            )
        ),
    ] = UNSET
    entropy_bonus: Annotated[
        bool | UnsetType,
        Meta(description="Of `grpo`: the entropy of whole logits is in the loss (verl)."),
    ] = UNSET
    rollout: Annotated[
        RolloutRequest | UnsetType,
        Meta(description="Of `grpo`: the engine on the same GPUs; without, it has its own."),
    ] = UNSET
    critic: Annotated[
        CriticRequest | UnsetType,
        Meta(description="Of `grpo`: a value model that is trained on the same GPUs (PPO)."),
    ] = UNSET
    evaluation: Annotated[
        EvaluationRequest | UnsetType,
        Meta(description="The evaluation between steps, which may need more than a step."),
    ] = UNSET
    kernels: Annotated[
        Kernels | UnsetType,
        Meta(description="Whose kernels run; `liger`: `use_liger_kernel`, `foak`: IBM's plugin."),
    ] = UNSET
    keeps_logits: Annotated[
        bool | UnsetType, Meta(description="The loop holds the logits during backward.")
    ] = UNSET
    packing: Annotated[
        SequencePacking | UnsetType,
        Meta(description="How sequences share rows; `packed` fills them up to `sequence_length`."),
    ] = UNSET
    sequence_lengths: Annotated[
        LengthsRequest | UnsetType,
        Meta(
            description=(
                "Lengths of the data's sequences, as a list or as a number of sequences by length; "
                "the answer is for the worst batch, `sequence_length` cuts what is longer."
            )
        ),
    ] = UNSET
    fp32_outputs: Annotated[
        bool | UnsetType,
        Meta(description="Under autocast, what the model returns is cast to fp32 (accelerate)."),
    ] = UNSET
    padding_mask: Annotated[bool | UnsetType, Meta(description="Batches carry a padding mask.")] = (
        UNSET
    )
    reentrant_checkpointing: Annotated[
        bool | UnsetType, Meta(description="Checkpoints of `use_reentrant=True`.")
    ] = UNSET
    gradient_clipping: Annotated[
        bool | UnsetType, Meta(description="Gradients are clipped by norm.")
    ] = UNSET
    allocator: Annotated[
        Allocator | UnsetType, Meta(description="How the caching allocator gets memory.")
    ] = UNSET
    fp32_norms_and_head: Annotated[
        bool | UnsetType, Meta(description="PEFT's prepare_model_for_kbit_training.")
    ] = UNSET
    double_quantization: Annotated[
        bool | UnsetType, Meta(description="nf4 scales are quantised too.")
    ] = UNSET
    quantization_bits: Annotated[
        Annotated[int, Meta(ge=2, le=8)] | UnsetType,
        Meta(
            description=(
                "Bits of a weight under the adapters of method `qlora`: 4 is bitsandbytes' nf4, 8 "
                "its LLM.int8(), 2 GPTQ with groups of 128."
            )
        ),
    ] = UNSET
    optimizer_in_backward: Annotated[
        bool | UnsetType, Meta(description="The optimizer steps inside backward.")
    ] = UNSET
    compile: Annotated[
        bool | UnsetType,
        Meta(
            description="torch.compile, without CUDA graphs; on transformers the intervals reach "
            "up to what the step needs without it."
        ),
    ] = UNSET
    deterministic: Annotated[
        bool | UnsetType, Meta(description="Kernels that give the same bits each time.")
    ] = UNSET
    float8: Annotated[bool | UnsetType, Meta(description="Matrix products in fp8.")] = UNSET
    frozen: Annotated[
        Annotated[list[Word], Meta(max_length=32)] | UnsetType,
        Meta(
            description=(
                "Kinds of modules that are not trained, by the names of a model's "
                "`parameters.by_module`."
            )
        ),
    ] = UNSET
    lora: Annotated[
        LoraRequest | UnsetType, Meta(description="Adapters, for `lora` and `qlora`.")
    ] = UNSET
    peft: Annotated[PeftRequest | UnsetType, Meta(description="The method, for `peft`.")] = UNSET
    offload: Annotated[
        OffloadRequest | UnsetType, Meta(description="What lives outside the GPU.")
    ] = UNSET
    megatron: Annotated[
        MegatronRequest | UnsetType,
        Meta(description="Arguments of framework `megatron` alone, by its names."),
    ] = UNSET
    decoder_length: Annotated[
        Tokens | UnsetType, Meta(description="Decoder tokens of an encoder-decoder.")
    ] = UNSET
    num_images: Annotated[Count | UnsetType, Meta(description="Images per sequence.")] = UNSET
    image_tokens: Annotated[Tokens | UnsetType, Meta(description="Tokens per image.")] = UNSET
    inputs: Annotated[
        InputsRequest | UnsetType,
        Meta(
            description=(
                "Images, videos and audio of each sequence, in pixels, frames and seconds, in "
                "place of `num_images` and `image_tokens`."
            )
        ),
    ] = UNSET
    audio_frames: Annotated[Tokens | UnsetType, Meta(description="Audio frames per sequence.")] = (
        UNSET
    )
    num_tokens: Annotated[
        Annotated[int, Meta(ge=1, le=2**53)] | UnsetType,
        Meta(description="Tokens of the whole run, for its hours."),
    ] = UNSET
    num_samples: Annotated[
        Annotated[int, Meta(ge=1, le=2**40)] | UnsetType,
        Meta(
            description=(
                "Samples of the whole run in place of `num_tokens`: each is `sequence_length` "
                "tokens, packed ones are the mean of `sequence_lengths`, pairs are twice as many."
            )
        ),
    ] = UNSET
    save_total_limit: Annotated[
        Annotated[int, Meta(ge=1, le=10**6)] | UnsetType,
        Meta(description="Checkpoints that transformers' Trainer keeps, for the disk they take."),
    ] = UNSET


WorkloadRequest = TrainRequest | ServeRequest
