"""The highest moment of an engine's profiling run: dummy tokens go through the model, then a row per sequence is sampled.

vLLM 0.19.0, ``v1/worker/gpu_model_runner.py``: ``profile_run``, ``_dummy_run``, ``_dummy_sampler_run``; 0.7.3,
``worker/worker.py``.
"""

from dataclasses import dataclass

from service.estimator.architecture import Architecture
from service.estimator.block_module import BlockModule
from service.estimator.engines.chips import Chip
from service.estimator.engines.ranks import Rank
from service.estimator.engines.vllm_release import FP32_LOGIT, Release
from service.estimator.modules.weights import Linear
from service.estimator.quantization.weights import STACK_DIMENSIONS

_EXPERTS = "mlp_experts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What the run is made of: tokens, sequences, and bytes of an element of the hidden states."""

    num_tokens: int
    num_sequences: int
    width: int
    samples: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Bytes of the three candidates for the highest moment; ``passed`` are the tensors between stages, alive in each."""

    layer: int
    sampling: int
    tables: int
    passed: int
    chip: Chip

    @property
    def peak_bytes(self) -> int:
        """Bytes above the weights at the highest moment."""
        return max(self.layer, self.sampling, self.tables) + self.passed

    @property
    def formula(self) -> str:
        """The moment that decides."""
        named = {
            "widest layer of the profiling batch": self.layer,
            "sampling": self.sampling,
            "inductor's trial of the embedding": self.tables,
        }
        return max(named, key=lambda name: named[name])


def profile(rank: Rank, batch: Batch, release: Release, chip: Chip, *, eager: bool) -> Profile:
    """Return the profiling run of one rank; ``eager`` runs the model's own code instead of what inductor made of it."""
    compiled = release.compiles and not eager
    tokens = batch.num_tokens * batch.width
    layer = tokens * widest_layer(rank.model, flash=chip.flash) + chip.workspace_bytes
    hidden = rank.model.spec.hidden_size
    trial = rank.model.embedding.numel * batch.width + 2 * tokens * hidden
    return Profile(
        # The first run times the variants of each kernel, between writes of a buffer that flushes the second-level cache.
        layer=layer + (chip.cache_bytes if compiled else 0),
        sampling=_sampling(rank, batch, release, chip) if rank.is_last and batch.samples else 0,
        tables=trial if compiled and release.combines_kernels and rank.is_first else 0,
        passed=0 if rank.is_first else 2 * tokens * hidden,
        chip=chip,
    )


def _sampling(rank: Rank, batch: Batch, release: Release, chip: Chip) -> int:
    """Return the bytes while sampling: hidden states, two copies of the rows to sample, logits, a buffer per processor."""
    rows, vocabulary, hidden = min(batch.num_tokens, batch.num_sequences), rank.model.vocab_size, rank.model.spec.hidden_size
    buffer = 0 if release.sorts else chip.num_processors * vocabulary * FP32_LOGIT
    states = (batch.num_tokens + 2 * rows) * hidden * batch.width
    return rows * vocabulary * release.sampler_bytes(batch.width) + buffer + states + chip.workspace_bytes


def widest_layer(model: Architecture, *, flash: bool) -> int:
    """Return the elements per token that are alive at the widest point of any layer, with the hidden states around it."""
    return max(_widest(model, block, flash=flash) for block, _ in model.blocks)


def _widest(model: Architecture, block: BlockModule, *, flash: bool) -> int:
    hidden = model.spec.hidden_size
    linears = block.linears()
    attending = [layer for layer in linears if layer.kind == "attention"]
    mixed = next((layer.in_features for layer in reversed(attending) if layer.out_features == hidden), hidden)
    projected = sum(layer.out_features for layer in attending if layer.in_features == hidden)
    attention = 3 * hidden + projected + mixed
    # A piece of the model begins after attention and holds its output beside two residuals; xFormers holds one output more.
    around = 2 * hidden + mixed + (0 if flash else hidden)
    return max(attention, around + max(_dense_width(linears, hidden), _expert_width(model, block)))


def _dense_width(linears: tuple[Linear, ...], hidden: int) -> int:
    """Return what a dense feed-forward holds of a token at its widest: what goes into the activation, and what comes out."""
    inner = [layer for layer in linears if layer.kind == "mlp"]
    entering = sum(layer.out_features for layer in inner if layer.in_features == hidden)
    leaving = [layer.in_features for layer in inner if layer.out_features == hidden and layer.in_features != hidden]
    return entering + max(leaving, default=0)


def _expert_width(model: Architecture, block: BlockModule) -> int:
    """Return what chosen experts hold of a token: one buffer for both products, the activation, and the sum.

    vLLM 0.19.0, ``fused_moe/fused_moe.py``: ``intermediate_cache13`` is as wide as the wider of its two uses.
    """
    stacks = [weight for weight in block.weights() if weight.kind == _EXPERTS and len(weight.shape) == STACK_DIMENSIONS]
    if not stacks:
        return 0
    hidden, chosen = model.spec.hidden_size, model.spec.num_experts_per_token
    inner = min(weight.numel // weight.shape[0] // hidden for weight in stacks)
    return chosen * (max(2 * inner, hidden) + inner) + hidden
