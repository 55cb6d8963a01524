"""Parameters of one pipeline stage on one rank, counted by the ranks that their states are spread over."""

from dataclasses import dataclass

from service.estimator.backends.megatron.shape import Shape
from service.estimator.backends.megatron.stages import StageLayers


@dataclass(frozen=True, slots=True, kw_only=True)
class StageParameters:
    """``dense`` are held by all data and context ranks, ``experts`` by those that hold the same experts."""

    dense: int
    experts: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.dense + self.experts


def stage_parameters(shape: Shape, layers: StageLayers) -> StageParameters:
    """Return what a stage holds: its layers, the embedding on the first, final norm and head on the last.

    A tied head is a second copy of the embedding where there are more stages than one.
    """
    attention = _attention(shape)
    dense = (layers.dense + layers.sparse) * (attention + 2 * _norm(shape)) + layers.dense * _mlp(shape, shape.inner)
    experts = 0
    if shape.experts is not None and layers.sparse:
        owned = shape.experts
        router = shape.hidden * owned.num_experts
        shared = _mlp(shape, owned.shared_inner) + shape.hidden * owned.shared_gate if owned.shared_inner else 0
        dense += layers.sparse * (router + shared)
        experts = layers.sparse * owned.local_experts * _mlp(shape, owned.inner)
    table = shape.vocabulary * shape.hidden
    if layers.first:
        dense += table + shape.learned_positions * shape.hidden
    if layers.last:
        dense += _norm(shape) + (0 if shape.tied and layers.first else table)
    return StageParameters(dense=dense, experts=experts)


def _norm(shape: Shape) -> int:
    return shape.hidden * (2 if shape.layer_norm else 1)


def _mlp(shape: Shape, inner: int) -> int:
    """Return up (and gate) and down; the bias of the first is split, that of the second is whole."""
    wide = inner * (2 if shape.gated else 1)
    bias = wide + shape.hidden if shape.bias else 0
    return shape.hidden * (wide + inner) + bias


def _attention(shape: Shape) -> int:
    if shape.latent is not None:
        return _latent_attention(shape)
    fused = shape.query + 2 * shape.key
    bias = fused * shape.attention_bias + shape.hidden * shape.output_bias
    norms = 2 * shape.head_dim * (2 if shape.layer_norm else 1) if shape.query_key_norm else 0
    return shape.hidden * (fused + shape.query) + bias + norms


def _latent_attention(shape: Shape) -> int:
    latent = shape.latent
    assert latent is not None  # noqa: S101 - the caller asked
    query = shape.heads * (latent.passed + latent.turned)
    small = latent.query_latent
    to_query = small * (shape.hidden + query + 1) if small else shape.hidden * query
    compressed = shape.hidden * (latent.key_value_latent + latent.turned) + latent.key_value_latent
    expanded = latent.key_value_latent * shape.heads * (latent.passed + latent.value)
    return to_query + compressed + expanded + shape.heads * latent.value * shape.hidden
