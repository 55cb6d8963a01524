"""vLLM: a fraction of the GPU's total, less weights, the profiled peak and what lies outside of PyTorch, is the pool.

0.19.0, ``v1/worker/gpu_worker.py`` (``determine_available_memory``); 0.7.3, ``worker/worker.py``.
"""

from dataclasses import dataclass

from service.estimator.architecture import Architecture
from service.estimator.device import Device
from service.estimator.engines.blocks import Paging, Pool, pool_of
from service.estimator.engines.chips import chip_of
from service.estimator.engines.limits import check_engine, longest_sequence
from service.estimator.engines.outside_vllm import context, graphs, non_torch
from service.estimator.engines.pooled import Filled, Part, exact, filled_estimate
from service.estimator.engines.profile import Batch, Profile, profile
from service.estimator.engines.ranks import Rank, ranks_of
from service.estimator.engines.vllm_release import (
    BLOCK_TOKENS,
    FRACTION_PER_MILLE,
    LATENT_BLOCK_TOKENS,
    Release,
    release_of,
)
from service.estimator.layout import Layout
from service.estimator.quantization.weights import scheme_of
from service.estimator.result import Detail, Estimate, Stage
from service.estimator.units import format_bytes, format_count
from service.estimator.workload import ServeWorkload

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
    settings = _settings(model, workload, device)
    scheme = scheme_of(workload.quantization, model)
    ranks = ranks_of(model, layout, scheme=scheme, dtype=workload.weight_dtype)
    stages = [_Stage(rank, workload, layout, settings, device) for rank in ranks]
    return filled_estimate(
        _filled(stages, workload, layout, settings),
        detail=detail,
        warnings=device.warnings_for(workload.weight_dtype),
    )


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


class _Stage:
    """One rank of one pipeline stage: its fixed parts and the pool that it could have."""

    def __init__(self, rank: Rank, workload: ServeWorkload, layout: Layout, settings: Settings, device: Device) -> None:
        self.rank, self.settings, self.workload = rank, settings, workload
        batch = Batch(
            num_tokens=settings.batched_tokens,
            num_sequences=settings.max_num_sequences,
            width=workload.weight_dtype.bytes_per_element,
            samples=settings.release.samples(settings.max_model_len),
        )
        chip = chip_of(device)
        self.profile: Profile = profile(rank, batch, settings.release, chip, eager=workload.enforce_eager)
        self.outside = non_torch(settings.release, chip, layout)
        self.graphs = graphs(settings.release, rank, layout, eager=workload.enforce_eager)
        self.context = context(settings.release, chip)
        self.fixed_bytes = rank.weight_bytes + self.profile.peak_bytes + self.outside.bytes
        if self.context.budgeted:
            self.fixed_bytes += self.context.bytes
        self.pool: Pool = pool_of(
            rank.caches, workload.kv_cache_dtype.bytes_per_element, settings.budget_bytes - self.fixed_bytes, settings.paging
        )

    @property
    def token_bytes(self) -> int:
        """Bytes that this rank keeps for one token in all of its layers."""
        elements = sum(cache.elements_per_token * cache.count for cache in self.rank.caches)
        return elements * self.workload.kv_cache_dtype.bytes_per_element

    def parts(self, pool: Pool) -> tuple[Part, ...]:
        """Return the parts of the rank beside a pool of so many blocks."""
        counts, workload = self.rank.model.parameter_counts(), self.workload
        tables = format_bytes(self.rank.table_bytes)
        weights = f"{format_count(counts.total)} params of a rank's share, {_format(workload)}, and {tables} of rotary tables"
        blocks = (
            f"{pool.num_blocks} blocks x {pool.paging.block_tokens} tokens x {pool.block_bytes // pool.paging.block_tokens} B"
        )
        peak = f"{self.profile.formula}: {self.settings.batched_tokens} tokens, {self.settings.max_num_sequences} sequences"
        return (
            exact("weights", self.rank.weight_bytes, weights, _SOURCE),
            exact("activations", self.profile.peak_bytes, peak, "vLLM, profile_run"),
            exact("kv_cache", pool.bytes, blocks, "vLLM, v1/core/kv_cache_utils.py"),
            self.graphs,
            self.outside,
            self.context,
        )


def _format(workload: ServeWorkload) -> str:
    return workload.quantization.value if workload.quantization.value != "none" else workload.weight_dtype.value


def _filled(stages: list[_Stage], workload: ServeWorkload, layout: Layout, settings: Settings) -> Filled:
    """Return the rank with the fewest blocks, which decides how many every rank has."""
    decisive = min(stages, key=lambda stage: stage.pool.num_blocks)
    pools = [
        Pool(
            num_blocks=decisive.pool.num_blocks,
            block_bytes=stage.pool.block_bytes,
            groups=stage.pool.groups,
            paging=stage.pool.paging,
        )
        for stage in stages
    ]
    pool = decisive.pool
    tokens = workload.prompt_tokens + workload.output_tokens
    states = workload.num_sequences * decisive.rank.model.spec.hidden_size * workload.weight_dtype.bytes_per_element
    return Filled(
        num_gpus=layout.num_gpus,
        parts=decisive.parts(pool),
        pool_bytes=pool.bytes,
        pool_tokens=pool.tokens,
        token_bytes=decisive.token_bytes,
        asked_bytes=workload.num_sequences * pool.blocks_of(tokens) * pool.block_bytes,
        longest=pool.sequences_of(settings.max_model_len),
        max_num_sequences=int(pool.sequences_of(tokens)),
        budget_bytes=settings.budget_bytes,
        stages=tuple(
            Stage(
                index,
                stage.rank.weight_bytes + stage.profile.peak_bytes + held.bytes,
                stage.rank.weight_bytes + held.bytes,
            )
            for index, (stage, held) in enumerate(zip(stages, pools, strict=True))
        ),
        decode_bytes=decisive.rank.weight_bytes + pool.bytes + states,
        approximate=decisive.rank.model.spec.approximate,
    )
