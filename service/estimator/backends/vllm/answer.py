"""vLLM: a fraction of the GPU's total, less weights, the profiled peak and what lies outside of PyTorch, is the pool.

0.19.0, ``v1/worker/gpu_worker.py`` (``determine_available_memory``); 0.7.3, ``worker/worker.py``.
"""

from dataclasses import dataclass

from service.estimator.backends.paged_pool.blocks import Paging, pool_of
from service.estimator.backends.paged_pool.engine_memory import Holder, Terms, filled, held_by
from service.estimator.backends.paged_pool.pool import exact, filled_estimate
from service.estimator.backends.paged_pool.rank_memory import Rank, drafted, ranks_of
from service.estimator.backends.vllm.overheads import context, graphs, joined_bytes, non_torch
from service.estimator.backends.vllm.profile import Batch, profile
from service.estimator.backends.vllm.release import (
    BLOCK_TOKENS,
    FRACTION_PER_MILLE,
    LATENT_BLOCK_TOKENS,
    Release,
    release_of,
)
from service.estimator.memory.overheads.gpu_properties import chip_of
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.speculative import FIELD as DRAFT_FIELD
from service.estimator.model.families.speculative import draft_of
from service.estimator.model.quantization.loading import in_engine
from service.estimator.model.quantization.weights import scheme_of
from service.estimator.rules.engines import check_engine, longest_sequence
from service.estimator.values.device import Device
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Detail, Estimate
from service.estimator.values.units import format_bytes, format_count
from service.estimator.values.workload import ServeWorkload

_WITHOUT_A_MODEL = frozenset({"codegen", "gpt_neo"})
"""Decoders of the hub that ``model_executor/models/registry.py`` does not list."""
_SOURCE = "vLLM 0.19.0, v1/worker/gpu_worker.py, determine_available_memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The engine's arguments, said or defaulted."""

    release: Release
    max_model_len: int
    batched_tokens: int
    max_num_sequences: int
    budget_bytes: int
    paging: Paging


def answer(model: Architecture, workload: ServeWorkload, layout: Layout, device: Device, *, detail: Detail) -> Estimate:
    """Return the answer of one vLLM replica: of the rank whose pool is smallest, which decides for all."""
    check_engine(model, workload, layout)
    if model.family in _WITHOUT_A_MODEL:
        message = f"vLLM has no model of {model.family}: ask for engine transformers"
        raise InvalidInputError(message, field="workload.engine")
    _check_whole_experts(layout)
    settings = _settings(model, workload, device)
    scheme = in_engine(scheme_of(workload.quantization, model))
    target = ranks_of(model, layout, scheme=scheme, dtype=workload.weight_dtype, tiles=True)
    ranks = drafted(target, _draft(model, workload), layout, workload.weight_dtype)
    holders = held_by(ranks, lambda rank: _holder(rank, workload, layout, settings, device))
    terms = Terms(
        source="vLLM, v1/core/kv_cache_utils.py",
        budget_bytes=settings.budget_bytes,
        usable_bytes=device.usable_bytes,
        max_model_len=settings.max_model_len,
    )
    return filled_estimate(
        filled(holders, workload, layout, terms),
        detail=detail,
        warnings=device.warnings_for(workload.weight_dtype),
    )


def _check_whole_experts(layout: Layout) -> None:
    """Refuse experts that are spread and split as well: vLLM does one or the other (``FusedMoEParallelConfig.make``)."""
    if layout.expert_parallel == 1 or (layout.expert_tensor_parallel or layout.tensor_parallel) == 1:
        return
    ranks = layout.tensor_parallel * layout.data_parallel
    message = f"vLLM spreads whole experts over all tensor x data ranks: expert_parallel is 1 or {ranks}"
    raise InvalidInputError(message, field="layout.expert_parallel")


def _draft(model: Architecture, workload: ServeWorkload) -> Architecture | None:
    """Return the draft model; vLLM refuses one of another vocabulary (``verify_equal_vocab_size_if_draft_model``)."""
    draft = draft_of(workload)
    if draft is not None and draft.vocab_size != model.vocab_size:
        message = (
            f"vLLM verifies drafts of its model's vocabulary: it has {model.vocab_size} tokens, the draft {draft.vocab_size}"
        )
        raise InvalidInputError(message, field=DRAFT_FIELD)
    return draft


def _settings(model: Architecture, workload: ServeWorkload, device: Device) -> Settings:
    release = release_of(workload.engine_version, chip_of(device))
    longest = longest_sequence(model, workload)
    tokens = workload.max_num_batched_tokens or release.batched_tokens(device, longest)
    # Asked sequences run at once only if the engine may schedule so many.
    default = max(release.max_num_sequences(device), workload.num_sequences)
    fraction = FRACTION_PER_MILLE / 1000 if workload.gpu_memory_fraction is None else workload.gpu_memory_fraction
    latent = any(hasattr(getattr(block, "attention", None), "latent_size") for block, _ in model.blocks)
    paging = Paging(
        block_tokens=LATENT_BLOCK_TOKENS if latent else BLOCK_TOKENS, batched_tokens=tokens, hybrid=release.frees_windows
    )
    return Settings(
        release=release,
        max_model_len=longest,
        batched_tokens=tokens,
        max_num_sequences=workload.max_num_sequences or default,
        budget_bytes=int(device.usable_bytes * fraction),
        paging=paging,
    )


def _holder(rank: Rank, workload: ServeWorkload, layout: Layout, settings: Settings, device: Device) -> Holder:
    """Return one rank of one pipeline stage: its fixed parts and the pool that it could have."""
    chip, release = chip_of(device), settings.release
    batch = Batch(
        num_tokens=settings.batched_tokens,
        num_sequences=settings.max_num_sequences,
        width=workload.weight_dtype.bytes_per_element,
        samples=release.samples(settings.max_model_len),
    )
    run = profile(rank, batch, release, chip, eager=workload.enforce_eager)
    peak = f"{run.formula}: {settings.batched_tokens} tokens, {settings.max_num_sequences} sequences"
    own_context = context(release, chip, joined_bytes(chip, layout, device.name) if release.compiles else 0)
    outside = non_torch(release, chip, layout, device.name)
    fixed = rank.weight_bytes + run.peak_bytes + outside.bytes + (own_context.bytes if own_context.budgeted else 0)
    return Holder(
        rank=rank,
        fixed_bytes=fixed,
        parts=(
            exact("weights", rank.weight_bytes, weights_formula(rank, workload), _SOURCE),
            exact("activations", run.peak_bytes, peak, "vLLM, v1/worker/gpu_model_runner.py, profile_run"),
            graphs(release, rank, layout, eager=workload.enforce_eager),
            outside,
            own_context,
        ),
        pool=pool_of(rank.caches, workload.kv_cache_dtype.bytes_per_element, settings.budget_bytes - fixed, settings.paging),
    )


def weights_formula(rank: Rank, workload: ServeWorkload) -> str:
    """Return how a rank's weights are counted, in numbers."""
    word = workload.quantization.value
    tables, total = format_bytes(rank.table_bytes), format_count(rank.model.parameter_counts().total)
    draft = "" if draft_of(workload) is None else "; and those of the draft model"
    own = rank.model.quantization
    named = word if word != "none" else workload.weight_dtype.value if own is None else own.packing.value
    return f"{total} params of a rank's share, {named}, and {tables} of rotary tables{draft}"
