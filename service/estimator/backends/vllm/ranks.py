"""Ranks of a vLLM replica, as its classes hold their models."""

from dataclasses import replace

from service.estimator.backends.paged_pool.draft_heads import add_speculation
from service.estimator.backends.paged_pool.encoders import (
    VLLM_ENCODERS,
    count_difference,
    is_encoder,
)
from service.estimator.backends.paged_pool.host_weights import offload_weights
from service.estimator.backends.paged_pool.rank_memory import Rank, build_ranks
from service.estimator.backends.paged_pool.sparse_latents import check_kernels, keep_scales
from service.estimator.backends.vllm.speech import (
    adapt_speech_rank,
    count_encoder_layers,
    is_speech,
    load_decoder,
)
from service.estimator.memory.question import ServeQuestion
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.speculative import FIELD as DRAFT_FIELD
from service.estimator.model.families.speculative import get_draft_model
from service.estimator.model.quantization.loading import adapt_to_engine
from service.estimator.model.quantization.weights import select_scheme
from service.estimator.model.recorded.engine_models import runs_transformers_code
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.workload import ServeWorkload


def build_engine_ranks(question: ServeQuestion) -> tuple[Rank, ...]:
    """Return one rank of each stage, with a draft model."""
    model, workload, layout = question.model, question.workload, question.layout
    check_kernels(model, question.device)
    dtype, scheme = (
        workload.weight_dtype,
        adapt_to_engine(select_scheme(workload.quantization, model)),
    )
    ranks = build_ranks(
        load_decoder(model) if is_speech(model) else model,
        layout,
        scheme=scheme,
        dtype=dtype,
        tiles=True,
        by_plan=runs_transformers_code(model, workload.engine),
        state_dtype=workload.state_dtype,
    )
    if is_encoder(model):
        more = count_difference(model, VLLM_ENCODERS, dtype)
        ranks = tuple(replace(rank, weight_bytes=rank.weight_bytes + more) for rank in ranks)
    if is_speech(model):
        layers = count_encoder_layers(model)
        ranks = tuple(adapt_speech_rank(rank, layers, dtype) for rank in ranks)
    _check_vocabularies(model, workload)
    ranks = add_speculation(ranks, model, workload.speculative, layout, scheme=scheme, dtype=dtype)
    ranks = keep_scales(ranks, model, workload.kv_cache_dtype, question.device)
    return offload_weights(ranks, workload.cpu_offload_gb)


def _check_vocabularies(model: Architecture, workload: ServeWorkload) -> None:
    """Refuse a draft model of another vocabulary.

    vLLM does so (``verify_equal_vocab_size_if_draft_model``).
    """
    speculative = workload.speculative
    draft = get_draft_model(speculative)
    if draft is None or speculative is None or speculative.head is not None:
        return
    if draft.vocab_size != model.vocab_size:
        message = (
            f"vLLM verifies drafts of its model's vocabulary: it has {model.vocab_size} tokens, "
            f"the draft {draft.vocab_size}"
        )
        raise InvalidInputError(message, field=DRAFT_FIELD)
