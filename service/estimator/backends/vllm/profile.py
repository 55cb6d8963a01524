"""Peak of an engine's profiling run.

Dummy tokens go through the model, then a row per sequence is sampled: vLLM 0.19.0,
``v1/worker/gpu_model_runner.py``, and 0.33.0, ``v1/worker/gpu/model_runner.py``: ``profile_run``,
``_dummy_run``, ``_dummy_sampler_run``; 0.7.3, ``worker/worker.py``.
"""

from dataclasses import dataclass

from service.estimator.backends.paged_pool.activation_peak import count_attention_elements
from service.estimator.backends.paged_pool.rank_memory import Rank
from service.estimator.backends.paged_pool.sparse_latents import NO_WORK, SparseWork
from service.estimator.backends.vllm.release import FP32_LOGIT, VllmRelease
from service.estimator.memory.overheads.gpu_properties import GpuProperties


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilingBatch:
    """Batch of the profiling run.

    It has tokens, sequences, and bytes of an element of the hidden states.
    """

    num_tokens: int
    num_sequences: int
    bytes_per_element: int
    samples: bool = True
    sparse: SparseWork = NO_WORK


@dataclass(frozen=True, slots=True, kw_only=True)
class TowerRun:
    """Run of a tower before that of the language model.

    It has the bytes at its own peak, and of what it hands on, which stays until all is over.
    """

    peak_bytes: int
    output_bytes: int
    formula: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilingRun:
    """Bytes of the candidates for the peak.

    ``persistent`` is alive in each: tensors between stages, images. ``buffers`` of the experts are
    made when the first layer runs: after the trial, and before the others; ``indexer`` is the peak
    of what chooses keys. A ``tower`` runs before any of them.
    """

    layer: int
    indexer: int
    sampling: int
    tables: int
    persistent: int
    buffers: int
    gpu: GpuProperties
    tower: TowerRun | None = None

    @property
    def peak_bytes(self) -> int:
        """Bytes above the weights at the peak."""
        highest = max(self.layer, self.indexer, self.sampling) + self.buffers
        text = max(highest, self.tables) + self.persistent
        return max(text, 0 if self.tower is None else self.tower.peak_bytes)

    @property
    def formula(self) -> str:
        """Name of the candidate that decides."""
        candidates = {
            "widest layer of the profiling batch": self.layer + self.buffers,
            "logits of the indexer": self.indexer + self.buffers,
            "sampling": self.sampling + self.buffers,
            "inductor's trial of the embedding": self.tables,
        }
        if self.tower is not None:
            candidates[self.tower.formula] = self.tower.peak_bytes - self.persistent
        return max(candidates, key=lambda name: candidates[name])


def profile_rank(
    rank: Rank,
    batch: ProfilingBatch,
    release: VllmRelease,
    gpu: GpuProperties,
    *,
    eager: bool,
    tower: TowerRun | None = None,
) -> ProfilingRun:
    """Return the profiling run of one rank.

    ``eager`` runs the model's own code instead of what inductor made of it.
    """
    compiled = release.compiles and not eager
    tokens = batch.num_tokens * batch.bytes_per_element
    shared_buffers = (
        rank.shared_buffers if release.shares_expert_buffers and gpu.supports_flash else None
    )
    layer = (
        tokens
        * (
            rank.get_peak_elements(flash=gpu.supports_flash)
            if shared_buffers is None
            else shared_buffers.layer
        )
        + gpu.workspace_bytes
    )
    hidden, sparse = rank.model.spec.hidden_size, batch.sparse
    attended = tokens * count_attention_elements(rank.model) if sparse.logits else 0
    trial = rank.model.embedding.numel * batch.bytes_per_element + 2 * tokens * hidden
    return ProfilingRun(
        # The first run times the variants of each kernel, between writes of a buffer that flushes
        # the second-level cache.
        layer=layer + (gpu.cache_bytes if compiled else 0),
        indexer=attended + sparse.logits,
        sampling=_count_sampling_bytes(rank, batch, release, gpu)
        if rank.is_last and batch.samples
        else 0,
        # In the logs of H100 alone: those of A100 and RTX A6000 show the sampling peak, which is
        # lower.
        tables=trial
        if compiled and release.combines_kernels and rank.is_first and gpu.is_hopper_or_later
        else 0,
        persistent=sparse.positions
        + (tower.output_bytes if tower is not None else 2 * tokens * hidden * (not rank.is_first)),
        buffers=max(
            0 if shared_buffers is None else tokens * shared_buffers.buffers, sparse.workspace
        ),
        gpu=gpu,
        tower=tower,
    )


def _count_sampling_bytes(
    rank: Rank, batch: ProfilingBatch, release: VllmRelease, gpu: GpuProperties
) -> int:
    """Return the bytes alive while sampling.

    They are hidden states, two copies of the rows to sample, logits, and a buffer per processor.
    """
    rows, vocabulary, hidden = (
        min(batch.num_tokens, batch.num_sequences),
        rank.model.vocab_size,
        rank.model.spec.hidden_size,
    )
    buffer = gpu.num_processors * vocabulary * FP32_LOGIT if release.searches_logits else 0
    states = (batch.num_tokens + 2 * rows) * hidden * batch.bytes_per_element
    return (
        rows * vocabulary * release.sampler_bytes_per_logit(batch.bytes_per_element)
        + buffer
        + states
        + gpu.workspace_bytes
    )
