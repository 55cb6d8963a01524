"""Arguments of a vLLM engine, requested or its release's defaults."""

from dataclasses import dataclass

from service.estimator.backends.paged_pool.blocks import Paging
from service.estimator.backends.paged_pool.encoders import is_encoder
from service.estimator.backends.paged_pool.sparse_latents import BLOCK_TOKENS, find_sparse
from service.estimator.backends.vllm.encoders import resolve_encoder_length, resolve_step_tokens
from service.estimator.backends.vllm.release import VllmRelease, get_block_tokens
from service.estimator.backends.vllm.speech import (
    SpeechEncoder,
    check_batched_tokens,
    is_speech,
    load_encoder,
)
from service.estimator.backends.vllm.towers import ImageTower, ItemLimits, find_tower
from service.estimator.memory.kv_cache import is_latent
from service.estimator.memory.question import ServeQuestion
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.speculative import count_draft_tokens
from service.estimator.model.positions import count_served_positions
from service.estimator.values.workload import ServeWorkload


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmSettings:
    """The engine's arguments, requested or defaulted."""

    release: VllmRelease
    max_model_len: int
    batched_tokens: int
    max_num_sequences: int
    budget_bytes: int
    paging: Paging
    speech: SpeechEncoder | None = None
    tower: ImageTower | None = None


def resolve_max_model_len(model: Architecture, workload: ServeWorkload) -> int:
    """Return the longest sequence that an engine accepts."""
    if is_encoder(model):
        return resolve_encoder_length(model, workload)
    positions = count_served_positions(model.spec, workload.engine)
    return workload.resolve_max_model_len(positions)


def resolve_settings(
    question: ServeQuestion, release: VllmRelease, max_model_len: int, scheduled: int
) -> VllmSettings:
    """Return the arguments of an engine that schedules so many sequences."""
    model, workload, device = question.model, question.workload, question.device
    sequences = workload.max_num_sequences or scheduled
    default = release.get_batched_tokens(device, max_model_len, sequences)
    tokens = (
        resolve_step_tokens(workload, default, max_model_len)
        if is_encoder(model)
        else workload.max_num_batched_tokens or default
    )
    speech = load_encoder(model) if is_speech(model) else None
    if speech is not None:
        check_batched_tokens(speech, tokens)
    fraction = (
        release.memory_fraction
        if workload.gpu_memory_fraction is None
        else workload.gpu_memory_fraction
    )
    paging = Paging(
        block_tokens=_get_block_tokens(question, release),
        batched_tokens=tokens,
        hybrid=release.frees_windows,
        state_blocks=release.state_blocks,
        guessed_blocks=count_draft_tokens(workload.speculative),
        counts_requests=release.counts_requests,
    )
    return VllmSettings(
        release=release,
        max_model_len=max_model_len,
        batched_tokens=tokens,
        max_num_sequences=sequences,
        budget_bytes=int(device.usable_bytes * fraction),
        paging=paging,
        speech=speech,
        tower=find_tower(
            model.spec,
            model.images,
            max_model_len=max_model_len,
            ranks=question.layout.tensor_parallel,
            limits=ItemLimits(workload.max_images_per_prompt, workload.max_videos_per_prompt),
        ),
    )


def _get_block_tokens(question: ServeQuestion, release: VllmRelease) -> int:
    """Return the tokens of a block that all kernels take."""
    model, cache_dtype = question.model, question.workload.kv_cache_dtype
    if find_sparse(model) is not None:
        return BLOCK_TOKENS
    return get_block_tokens(
        release.version, question.device, latent=is_latent(model), cache_dtype=cache_dtype
    )


def name_pool_field(workload: ServeWorkload) -> str | None:
    """Return what gives the pool its size; blocks replace bytes (``may_override_num_blocks``)."""
    sized = (("kv_pool_blocks", workload.kv_pool_blocks), ("kv_pool_bytes", workload.kv_pool_bytes))
    return next((name for name, size in sized if size is not None), None)
