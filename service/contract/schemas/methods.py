"""Parts of a workload: number formats, adapters, and inputs beside text."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from service.contract.schemas.fields import (
    Answer,
    Batch,
    JsonObject,
    ModuleName,
    Strict,
    Tokens,
    Word,
)
from service.estimator.values.adapters.lora_kernels import LoraKernel
from service.estimator.values.batches import MAX_COUNT, MAX_SECONDS, MAX_SIDE
from service.estimator.values.dtypes import DType
from service.estimator.values.losses import Loss
from service.estimator.values.workload import OffloadTarget

PolicyName = Literal[
    "fp32",
    "bf16",
    "fp16",
    "amp_bf16",
    "amp_fp16",
    "bf16_autocast",
    "fp16_autocast",
    "bf16_mixed",
    "fp16_mixed",
    "megatron_bf16",
    "deepspeed_bf16",
]


class PrecisionRequest(Strict, frozen=True, kw_only=True):
    """Number formats of a training run, one by one; what is absent follows `param_dtype`."""

    param_dtype: Annotated[
        DType, Meta(description="Format of the weights that the model runs with.")
    ]
    compute_dtype: Annotated[
        DType | UnsetType, Meta(description="Format of the arithmetic; default `param_dtype`.")
    ] = UNSET
    autocast: Annotated[
        bool, Meta(description="Weights stay in `param_dtype`; autocast keeps copies.")
    ] = False
    grad_dtype: Annotated[
        DType | UnsetType, Meta(description="Format of the stored gradient; default `param_dtype`.")
    ] = UNSET
    reduce_dtype: Annotated[
        DType | UnsetType, Meta(description="Format of the reduction; default `grad_dtype`.")
    ] = UNSET
    master_dtype: Annotated[
        DType | UnsetType | None,
        Meta(description="The optimizer's own copy; null, the default, is none."),
    ] = UNSET
    main_grad_dtype: Annotated[
        DType | UnsetType | None,
        Meta(description="The optimizer's gradient; null, the default, is none."),
    ] = UNSET
    main_grad_persistent: Annotated[
        bool, Meta(description="The main gradient lives through the whole step.")
    ] = False
    optimizer_dtype: Annotated[
        DType | UnsetType, Meta(description="Moments; default `master_dtype`, else `param_dtype`.")
    ] = UNSET


class LoraRequest(Strict, frozen=True, kw_only=True):
    """Low-rank adapters (arXiv:2106.09685)."""

    rank: Annotated[int, Meta(ge=1, le=65_536, description="Rank of the adapters.")] | UnsetType = (
        UNSET
    )
    target_modules: Annotated[
        Literal["all-linear"]
        | Annotated[list[ModuleName], Meta(min_length=1, max_length=64)]
        | UnsetType,
        Meta(
            description="Which linear layers, by name or by the end of a path "
            "(`linear_attn.out_proj`); `all-linear` is all but the head."
        ),
    ] = UNSET
    dtype: Annotated[
        DType | UnsetType, Meta(description="Format of adapters, their gradients and states.")
    ] = UNSET
    variant: Annotated[
        Literal["lora", "dora", "rslora"] | UnsetType, Meta(description="Kind of adapter.")
    ] = UNSET
    dropout: Annotated[
        Annotated[float, Meta(ge=0, lt=1)] | UnsetType,
        Meta(
            description="Probability of dropout before each adapter, `lora_dropout` of PEFT, which "
            "keeps a mask and an input of its own where it is not 0.",
            examples=[0.05],
        ),
    ] = UNSET
    kernels: Annotated[
        Annotated[list[LoraKernel], Meta(max_length=3)] | UnsetType,
        Meta(
            description="Layers that axolotl's own functions run with their adapters, in place of "
            "PEFT's modules: `qkv`, `o`, `mlp` (its `lora_qkv_kernel`, `lora_o_kernel`, "
            "`lora_mlp_kernel`); none unless said.",
            examples=[["qkv", "o", "mlp"]],
        ),
    ] = UNSET


class PeftRequest(Strict, frozen=True, kw_only=True):
    """Another kind of parameter-efficient training."""

    type: Annotated[Word, Meta(description="PEFT's name of the method.", examples=["ia3"])]


class SelectiveRequest(Strict, frozen=True, kw_only=True):
    """Recompute every n-th layer."""

    selective: Annotated[
        int, Meta(ge=1, le=10_000, description="Every how many layers: the first in transformers.")
    ]


class OffloadRequest(Strict, frozen=True, kw_only=True):
    """What lives outside the GPU."""

    optimizer: Annotated[OffloadTarget, Meta(description="Where the optimizer's states live.")] = (
        OffloadTarget.NONE
    )
    parameters: Annotated[
        OffloadTarget, Meta(description="Where parameters and gradients live.")
    ] = OffloadTarget.NONE
    activations: Annotated[OffloadTarget, Meta(description="Where saved activations live.")] = (
        OffloadTarget.NONE
    )


Side = Annotated[int, Meta(ge=1, le=MAX_SIDE)]
Items = Annotated[int, Meta(ge=1, le=MAX_COUNT)]
_MOST_KINDS = 64


class PictureRequest(Strict, frozen=True, kw_only=True):
    """Equal images of a sequence."""

    width: Annotated[Side, Meta(description="Pixels across.", examples=[1024])]
    height: Annotated[Side, Meta(description="Pixels down.", examples=[768])]
    count: Annotated[Items, Meta(description="How many of them a sequence has.")] = 1


class ClipRequest(Strict, frozen=True, kw_only=True):
    """Equal videos of a sequence."""

    frames: Annotated[
        Items, Meta(description="Frames that the model reads, once sampled.", examples=[64])
    ]
    width: Annotated[Side, Meta(description="Pixels across.", examples=[448])]
    height: Annotated[Side, Meta(description="Pixels down.", examples=[448])]
    count: Annotated[Items, Meta(description="How many of them a sequence has.")] = 1


class SoundRequest(Strict, frozen=True, kw_only=True):
    """Equal stretches of audio of a sequence."""

    seconds: Annotated[
        Annotated[float, Meta(gt=0, le=MAX_SECONDS)],
        Meta(description="Length of one, in seconds.", examples=[30.0]),
    ]
    count: Annotated[Items, Meta(description="How many of them a sequence has.")] = 1


class InputsRequest(Strict, frozen=True, kw_only=True):
    """Images, videos and audio of each sequence. The processor's own rules make tokens of them,
    which `sequence_length` or `prompt_tokens` counts.
    """

    images: Annotated[
        Annotated[list[PictureRequest], Meta(max_length=_MOST_KINDS)] | UnsetType,
        Meta(description="Images by their pixels."),
    ] = UNSET
    videos: Annotated[
        Annotated[list[ClipRequest], Meta(max_length=_MOST_KINDS)] | UnsetType,
        Meta(description="Videos by their frames and pixels."),
    ] = UNSET
    audio: Annotated[
        Annotated[list[SoundRequest], Meta(max_length=_MOST_KINDS)] | UnsetType,
        Meta(description="Audio by its seconds."),
    ] = UNSET
    processor: Annotated[
        JsonObject | UnsetType,
        Meta(
            description=(
                "A preprocessor_config.json or processor_config.json, or those of its fields that "
                "differ (vLLM's `mm_processor_kwargs`), such as `max_pixels`; default those of the "
                "type's checkpoints."
            ),
            examples=[{"max_pixels": 1003520}],
        ),
    ] = UNSET


class EvaluationRequest(Strict, frozen=True, kw_only=True):
    """An evaluation between training steps (`eval_strategy` of transformers' Trainer)."""

    batch_size: Annotated[
        Batch | UnsetType,
        Meta(description="Sequences at once, `per_device_eval_batch_size`; default 8."),
    ] = UNSET
    sequence_length: Annotated[
        Tokens | UnsetType, Meta(description="Tokens of one; default those of a step.")
    ] = UNSET
    kept_batches: Annotated[
        Annotated[int, Meta(ge=0, le=10**6)] | UnsetType,
        Meta(
            description=(
                "Batches whose logits stay on the GPU for `compute_metrics`: "
                "`eval_accumulation_steps`, without it every batch; 0 where losses alone are. None "
                "are counted where it is left out, and a warning says so."
            )
        ),
    ] = UNSET
    loss: Annotated[
        Loss | UnsetType,
        Meta(
            description=(
                "How its loss treats the logits: `full_logits` where Liger's kernels make them "
                "outside of training, as axolotl and LLaMA-Factory run them; default as a step's "
                "under transformers' Trainer."
            )
        ),
    ] = UNSET


class InputTokensAnswer(Answer, frozen=True, kw_only=True):
    """What one image, video or stretch of audio becomes."""

    kind: Annotated[str, Meta(description="`image`, `video` or `audio`.", examples=["image"])]
    count: Annotated[int, Meta(description="How many of it a sequence has.")]
    tokens: Annotated[
        int, Meta(description="Tokens of the sequence that one takes, special tokens included.")
    ]
    features: Annotated[int, Meta(description="Those of them that the encoder makes.")]
    pieces: Annotated[
        int, Meta(description="Tiles, crops, frames or windows that the encoder reads of one.")
    ]
    positions: Annotated[
        int, Meta(description="Positions of the encoder's layers, all pieces of one together.")
    ]
