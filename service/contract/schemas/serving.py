"""Serving workload of a request, and what an answer says of a replica."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from service.contract.schemas.fields import (
    Answer,
    Batch,
    Count,
    Fraction,
    JsonObject,
    Length,
    ModelName,
    Strict,
    Tokens,
    Version,
)
from service.contract.schemas.methods import InputsRequest
from service.contract.schemas.models import (
    GgufDocument,
    HubFile,
    HubId,
    HubRevision,
    Origin,
)
from service.estimator.values.dtypes import CacheType, DType
from service.estimator.values.generation import Client, Sampling
from service.estimator.values.speculative import DraftHead
from service.estimator.values.workload import (
    Allocator,
    Attention,
    Cache,
    Engine,
    Quantization,
)


class DraftModel(Strict, frozen=True, kw_only=True):
    """A draft model that the catalogue lacks: exactly one of the first four."""

    hf_config: Annotated[
        JsonObject | UnsetType, Meta(description="A Hugging Face config.json.")
    ] = UNSET
    architecture: Annotated[
        JsonObject | UnsetType, Meta(description="Our own spec, as GET /v1/models/{name} shows it.")
    ] = UNSET
    gguf: GgufDocument | UnsetType = UNSET
    hub: HubId | UnsetType = UNSET
    revision: HubRevision | UnsetType = UNSET
    file: HubFile | UnsetType = UNSET
    origin: Origin | UnsetType = UNSET


class SpeculativeRequest(Strict, frozen=True, kw_only=True):
    """Speculative decoding (arXiv:2211.17192)."""

    num_tokens: Annotated[int, Meta(ge=1, le=1024, description="Tokens that are guessed at once.")]
    draft: Annotated[
        ModelName | DraftModel | UnsetType,
        Meta(
            description=(
                "The draft model: a name as `model` has it, or one that is brought like `model`; "
                "without one, n-grams of the prompt."
            )
        ),
    ] = UNSET
    head: Annotated[
        DraftHead | UnsetType,
        Meta(
            description=(
                "What reads the model's own hidden states: `mtp` are layers of its checkpoint, "
                "without a `draft`; `eagle` and `eagle3` are the `draft`, by its config.json. "
                "Without it the draft is a model of its own. vLLM and SGLang."
            )
        ),
    ] = UNSET


class ServeRequest(Strict, tag_field="task", tag="serve", frozen=True, kw_only=True):
    """One serving replica."""

    num_sequences: Annotated[Batch, Meta(description="Sequences that run at once.", examples=[64])]
    prompt_tokens: Annotated[
        Length,
        Meta(
            description=(
                "Tokens of one prompt; required unless `inputs` is all that a model reads."
            ),
            examples=[1536],
        ),
    ] = UNSET
    output_tokens: Annotated[
        Annotated[int, Meta(ge=0, le=100_000_000)] | UnsetType,
        Meta(description="Tokens generated per sequence."),
    ] = UNSET
    engine: Annotated[Engine | UnsetType, Meta(description="Serving engine.")] = UNSET
    engine_version: Annotated[Version | UnsetType, Meta(description="Version of the engine.")] = (
        UNSET
    )
    weight_dtype: Annotated[
        DType | UnsetType, Meta(description="Format of the weights; `fp8` quantises them.")
    ] = UNSET
    quantization: Annotated[
        Quantization | UnsetType, Meta(description="Format of quantised weights.")
    ] = UNSET
    kv_cache_dtype: Annotated[DType | UnsetType, Meta(description="Format of keys and values.")] = (
        UNSET
    )
    num_beams: Annotated[Batch | UnsetType, Meta(description="Beams per sequence.")] = UNSET
    client: Annotated[
        Client | UnsetType,
        Meta(description="Who calls a model of transformers: `generate()`, or a plain loop."),
    ] = UNSET
    sampling: Annotated[
        Sampling | UnsetType, Meta(description="How `generate()` chooses the next token.")
    ] = UNSET
    max_model_len: Annotated[
        Tokens | UnsetType, Meta(description="Longest sequence that the engine accepts.")
    ] = UNSET
    max_num_batched_tokens: Annotated[
        Tokens | UnsetType, Meta(description="Tokens of one engine step.")
    ] = UNSET
    max_num_sequences: Annotated[
        Batch | UnsetType,
        Meta(
            description=(
                "Sequences that the engine schedules at once at most; default its own, or "
                "`num_sequences` if more."
            )
        ),
    ] = UNSET
    gpu_memory_fraction: Annotated[
        Fraction | UnsetType, Meta(description="Share of the GPU's total that an engine takes.")
    ] = UNSET
    kv_pool_bytes: Annotated[
        Annotated[int, Meta(ge=1, le=2**50)] | UnsetType,
        Meta(
            description=(
                "Bytes of the pool of keys and values on each GPU, in place of what "
                "`gpu_memory_fraction` leaves (vLLM's `--kv-cache-memory-bytes`)."
            )
        ),
    ] = UNSET
    kv_pool_blocks: Annotated[
        Annotated[int, Meta(ge=1, le=2**40)] | UnsetType,
        Meta(
            description=(
                "Blocks of the pool on each GPU, in place of what `gpu_memory_fraction` or "
                "`kv_pool_bytes` leaves (vLLM's `--num-gpu-blocks-override`)."
            )
        ),
    ] = UNSET
    kv_pool_tokens: Annotated[
        Tokens | UnsetType,
        Meta(
            description=(
                "Tokens of the pool at most, where `gpu_memory_fraction` leaves room for more "
                "(SGLang's `--max-total-tokens`, `max_tokens` of TensorRT-LLM's "
                "`kv_cache_config`)."
            )
        ),
    ] = UNSET
    enforce_eager: Annotated[bool | UnsetType, Meta(description="No CUDA graphs.")] = UNSET
    speculative: Annotated[
        SpeculativeRequest | UnsetType, Meta(description="Tokens guessed ahead.")
    ] = UNSET
    attention: Annotated[Attention | UnsetType, Meta(description="Attention kernel.")] = UNSET
    num_images: Annotated[
        Count | UnsetType, Meta(description="Images in each prompt; `prompt_tokens` counts theirs.")
    ] = UNSET
    image_tokens: Annotated[Tokens | UnsetType, Meta(description="Tokens per image.")] = UNSET
    inputs: Annotated[
        InputsRequest | UnsetType,
        Meta(
            description=(
                "Images, videos and audio of each prompt, in pixels, frames and seconds, in place "
                "of `num_images` and `image_tokens`."
            )
        ),
    ] = UNSET
    cache: Annotated[Cache | UnsetType, Meta(description="How keys and values are stored.")] = UNSET
    allocator: Annotated[
        Allocator | UnsetType, Meta(description="How the caching allocator gets memory.")
    ] = UNSET
    gpu_layers: Annotated[
        Annotated[int, Meta(ge=0, le=100_000)] | UnsetType,
        Meta(
            description=(
                "llama.cpp's `--n-gpu-layers`: last layers that GPUs hold, the output counted as "
                "one; default all."
            )
        ),
    ] = UNSET
    cpu_moe_layers: Annotated[
        Annotated[int, Meta(ge=0, le=100_000)] | UnsetType,
        Meta(description="llama.cpp's `--n-cpu-moe`: first layers whose experts the host holds."),
    ] = UNSET
    tensor_split: Annotated[
        Annotated[list[Annotated[float, Meta(ge=0)]], Meta(min_length=1, max_length=128)]
        | UnsetType,
        Meta(description="llama.cpp's `--tensor-split`: shares of the layers, GPU by GPU."),
    ] = UNSET
    cache_type: Annotated[
        CacheType | UnsetType,
        Meta(
            description=(
                "llama.cpp's `--cache-type-k` and `-v`: blocks of keys and values; default "
                "`kv_cache_dtype`."
            )
        ),
    ] = UNSET
    cpu_offload_gb: Annotated[
        Annotated[float, Meta(gt=0, le=100_000)] | UnsetType,
        Meta(description="GiB of weights of each GPU that vLLM or SGLang keep on the host."),
    ] = UNSET
    max_loras: Annotated[
        Annotated[int, Meta(ge=1, le=10_000)] | UnsetType,
        Meta(
            description=(
                "vLLM's `--max-loras` with `--enable-lora`: slots of LoRA adapters that are "
                "allocated at the start; without it there are none."
            )
        ),
    ] = UNSET
    max_lora_rank: Annotated[
        Annotated[int, Meta(ge=1, le=512)] | UnsetType,
        Meta(description="vLLM's `--max-lora-rank`: rank of each slot; default 16."),
    ] = UNSET
    max_images_per_prompt: Annotated[
        Annotated[int, Meta(ge=0, le=10_000)] | UnsetType,
        Meta(
            description=(
                "`image` of vLLM's `--limit-mm-per-prompt`: images that a prompt may have, which "
                "the vision tower is profiled with; without it as many as have room."
            )
        ),
    ] = UNSET
    max_videos_per_prompt: Annotated[
        Annotated[int, Meta(ge=0, le=10_000)] | UnsetType,
        Meta(
            description=(
                "`video` of vLLM's `--limit-mm-per-prompt`: with 0 the vision tower is profiled "
                "with images alone."
            )
        ),
    ] = UNSET
    state_dtype: Annotated[
        DType | UnsetType,
        Meta(
            description=(
                "Format of the recurrent states of hybrids: vLLM's `--mamba-ssm-cache-dtype`, "
                "SGLang's `--mamba-ssm-dtype`; default the release's."
            )
        ),
    ] = UNSET


class ServingAnswer(Answer, frozen=True, kw_only=True):
    """What a serving replica needs and has; null where an engine without a pool has no such
    number.
    """

    kv_bytes_per_token: int
    kv_cache_bytes: int
    required_bytes: int
    budget_bytes: int
    kv_pool_bytes: int | None
    kv_pool_tokens: int | None
    max_num_sequences: int | None
    max_concurrency: Annotated[
        float | None,
        Meta(
            description=(
                "Sequences of `max_model_len` tokens that the pool holds, as vLLM prints it."
            )
        ),
    ]
    engine_version: Annotated[str | None, Meta(description="Release that the answer is of.")]
