"""Parameters of one pipeline stage on one rank.

They are counted by the ranks that their states are spread over.
"""

from dataclasses import dataclass

from service.estimator.backends.megatron.shape import RankShape
from service.estimator.backends.megatron.stages import StageLayers


@dataclass(frozen=True, slots=True, kw_only=True)
class StageParameters:
    """Parameters of one stage, dense and of experts.

    ``dense`` are held by all data and context ranks, ``experts`` by those that hold the same
    experts.
    """

    dense: int
    experts: int

    @property
    def total(self) -> int:
        """All parameters of the stage."""
        return self.dense + self.experts


def count_stage_parameters(shape: RankShape, layers: StageLayers) -> StageParameters:
    """Count the parameters of a stage.

    It holds its layers, the embedding on the first stage and where predictors are, final norm and
    head on the last. A tied head is a second copy of the embedding where there are more stages
    than one.
    """
    layers = layers.with_predictors(sparse=shape.experts is not None)
    norm = _count_norm(shape)
    dense = (layers.dense + layers.sparse) * (_count_attention(shape) + 2 * norm)
    dense += layers.dense * _count_mlp(shape, shape.inner)
    dense += layers.predictors * _count_predictor(shape)
    experts = 0
    if shape.experts is not None and layers.sparse:
        expert_shape = shape.experts
        router = shape.hidden * expert_shape.num_experts
        shared = (
            _count_mlp(shape, expert_shape.shared_inner) + shape.hidden * expert_shape.shared_gate
            if expert_shape.shared_inner
            else 0
        )
        dense += layers.sparse * (router + shared)
        experts = layers.sparse * expert_shape.local_experts * _count_mlp(shape, expert_shape.inner)
    table = shape.vocabulary * shape.hidden
    if layers.has_table:
        dense += table + shape.learned_positions * shape.hidden
    if layers.last:
        dense += norm + (0 if shape.tied and layers.has_table else table)
    return StageParameters(dense=dense, experts=experts)


def _count_predictor(shape: RankShape) -> int:
    """Count a predictor's parameters beside those of a layer.

    They are three norms and the projection of two states.
    """
    return 3 * _count_norm(shape) + 2 * shape.hidden * shape.hidden // shape.tensor_parallel


def _count_norm(shape: RankShape) -> int:
    return shape.hidden * (2 if shape.layer_norm else 1)


def _count_mlp(shape: RankShape, inner: int) -> int:
    """Count the parameters of up (and gate) and down.

    The bias of the first is split, that of the second is not.
    """
    wide = inner * (2 if shape.gated else 1)
    bias = wide + shape.hidden if shape.bias else 0
    return shape.hidden * (wide + inner) + bias


def _count_attention(shape: RankShape) -> int:
    if shape.latent is not None:
        return _count_latent_attention(shape)
    fused = shape.query + 2 * shape.key
    bias = fused * shape.attention_bias + shape.hidden * shape.output_bias
    norms = 2 * shape.head_dim * (2 if shape.layer_norm else 1) if shape.query_key_norm else 0
    return shape.hidden * (fused + shape.query) + bias + norms


def _count_latent_attention(shape: RankShape) -> int:
    latent = shape.latent
    assert latent is not None  # noqa: S101 - the caller asked
    query = shape.heads * (latent.nope_dim + latent.rope_dim)
    small = latent.query_latent
    to_query = small * (shape.hidden + query + 1) if small else shape.hidden * query
    compressed = (
        shape.hidden * (latent.key_value_latent + latent.rope_dim) + latent.key_value_latent
    )
    expanded = latent.key_value_latent * shape.heads * (latent.nope_dim + latent.value_dim)
    return to_query + compressed + expanded + shape.heads * latent.value_dim * shape.hidden
