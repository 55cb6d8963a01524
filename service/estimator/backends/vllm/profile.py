"""The highest moment of an engine's profiling run: dummy tokens go through the model, then a row per sequence is sampled.

vLLM 0.19.0, ``v1/worker/gpu_model_runner.py``: ``profile_run``, ``_dummy_run``, ``_dummy_sampler_run``; 0.7.3,
``worker/worker.py``.
"""

from dataclasses import dataclass

from service.estimator.backends.paged_pool.rank_memory import Rank
from service.estimator.backends.vllm.release import FP32_LOGIT, Release
from service.estimator.memory.overheads.gpu_properties import Chip


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What the run is made of: tokens, sequences, and bytes of an element of the hidden states."""

    num_tokens: int
    num_sequences: int
    width: int
    samples: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Bytes of the three candidates for the highest moment; ``passed`` is alive in each: tensors between stages, images.

    ``buffers`` of the experts are made when the first layer runs: after the trial, and before the rest.
    """

    layer: int
    sampling: int
    tables: int
    passed: int
    buffers: int
    chip: Chip

    @property
    def peak_bytes(self) -> int:
        """Bytes above the weights at the highest moment."""
        return max(max(self.layer, self.sampling) + self.buffers, self.tables) + self.passed

    @property
    def formula(self) -> str:
        """The moment that decides."""
        named = {
            "widest layer of the profiling batch": self.layer + self.buffers,
            "sampling": self.sampling + self.buffers,
            "inductor's trial of the embedding": self.tables,
        }
        return max(named, key=lambda name: named[name])


def profile(rank: Rank, batch: Batch, release: Release, chip: Chip, *, eager: bool) -> Profile:
    """Return the profiling run of one rank; ``eager`` runs the model's own code instead of what inductor made of it."""
    compiled = release.compiles and not eager
    tokens = batch.num_tokens * batch.width
    apart = rank.apart if release.shares_expert_buffers and chip.flash else None
    layer = tokens * (rank.widest(flash=chip.flash) if apart is None else apart.layer) + chip.workspace_bytes
    hidden = rank.model.spec.hidden_size
    trial = rank.model.embedding.numel * batch.width + 2 * tokens * hidden
    return Profile(
        # The first run times the variants of each kernel, between writes of a buffer that flushes the second-level cache.
        layer=layer + (chip.cache_bytes if compiled else 0),
        sampling=_sampling(rank, batch, release, chip) if rank.is_last and batch.samples else 0,
        # In the logs of H100 alone: those of A100 and RTX A6000 show the sampling peak, which is lower.
        tables=trial if compiled and release.combines_kernels and rank.is_first and chip.is_hopper_or_later else 0,
        passed=_shown(rank, batch) if rank.is_first and release.compiles else 2 * tokens * hidden * (not rank.is_first),
        buffers=0 if apart is None else tokens * apart.buffers,
        chip=chip,
    )


def _shown(rank: Rank, batch: Batch) -> int:
    """Return the bytes of the dummy images and of what the tower made of them: as many as the batch has room for.

    Both have names until the run is over. The tower's own work is not counted.
    """
    images = rank.model.images
    if images is None or not images.pixels:
        return 0
    tokens = images.tokens or images.most_tokens
    count = max(1, batch.num_tokens // tokens)
    return count * (images.pixels + tokens * rank.model.spec.hidden_size) * batch.width


def _sampling(rank: Rank, batch: Batch, release: Release, chip: Chip) -> int:
    """Return the bytes while sampling: hidden states, two copies of the rows to sample, logits, a buffer per processor."""
    rows, vocabulary, hidden = min(batch.num_tokens, batch.num_sequences), rank.model.vocab_size, rank.model.spec.hidden_size
    buffer = 0 if release.sorts else chip.num_processors * vocabulary * FP32_LOGIT
    states = (batch.num_tokens + 2 * rows) * hidden * batch.width
    return rows * vocabulary * release.sampler_bytes(batch.width) + buffer + states + chip.workspace_bytes
