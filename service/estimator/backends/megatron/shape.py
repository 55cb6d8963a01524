"""Numbers of a model as one rank of Megatron-LM holds them.

Heads, inner features and experts are those of this rank.
"""

from dataclasses import dataclass

from service.estimator.model.architecture import Architecture
from service.estimator.model.families.moe.deepseek import LatentSpec
from service.estimator.model.families.moe.tree import MoeSpec
from service.estimator.values.layout import Layout
from service.estimator.values.losses import Loss
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import Attention, Checkpointing, TrainWorkload

VOCABULARY_MULTIPLE = 128
"""Rows of the embedding are padded to a multiple of this per tensor-parallel rank
(``--make-vocab-size-divisible-by``).
"""

SHARED_GATE = "shared_expert_gate"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertShape:
    """Experts of one rank.

    ``copies`` are the tensor ranks whose tokens are gathered before a split expert.
    """

    num_experts: int
    local_experts: int
    top_k: int
    inner: int
    shared_inner: int
    shared_gate: bool
    """Whether the shared expert's output is scaled by a gate of its own
    (``--moe-shared-expert-gate``).
    """
    copies: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentShape:
    """Widths of multi-head latent attention.

    They are those of the latents and of one head's parts (arXiv:2405.04434, section 2.1).
    """

    query_latent: int
    key_value_latent: int
    nope_dim: int
    rope_dim: int
    value_dim: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankShape:
    """Widths on one rank, in elements per token unless noted."""

    hidden: int
    heads: int
    query: int
    key: int
    inner: int
    gated: bool
    bias: bool
    attention_bias: bool
    """Whether query, key and value have biases (``--add-qkv-bias``)."""
    output_bias: bool
    layer_norm: bool
    query_key_norm: bool
    head_dim: int
    learned_positions: int
    """Rows of a table of positions; 0 with rotary ones."""
    hidden_dropout: float
    attention_dropout: float
    vocabulary: int
    """Rows of the embedding on this rank, padded."""
    tied: bool
    tensor_parallel: int
    context_parallel: int
    sequence_shards: int
    """Ranks that share the sequence outside of attention and MLP: 1 without sequence parallelism.
    """
    experts: ExpertShape | None
    latent: LatentShape | None

    @property
    def row_statistics(self) -> int:
        """Bytes per row that a norm keeps.

        The inverse deviation is in fp32, and so is the mean of a layer norm.
        """
        return 8 if self.layer_norm else 4

    @property
    def statistics(self) -> int:
        """Bytes per token that a norm keeps.

        The rows are spread over the tensor-parallel ranks under sequence parallelism.
        """
        return max(1, self.row_statistics // self.sequence_shards)


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """Choices that decide which tensors are kept, beside the widths."""

    unfused: bool
    copies_output: bool
    """Whether flash attention's output is copied to lie sequence first: flash-attn 2 with more than
    one sequence.
    """
    checkpointing: Checkpointing
    fused_loss: bool


def resolve_switches(workload: TrainWorkload, *, fused_attention: bool) -> Switches:
    """Return the switches of a workload.

    Left to itself, Transformer Engine takes cuDNN's ``fused_attention`` where it can. It can from
    Hopper on (attention/dot_product_attention/utils.py), but for reproducible results on a
    Blackwell, where both tests of it hold flash-attn 2's copy.
    """
    flash = workload.attention is Attention.FLASH or not fused_attention
    return Switches(
        unfused=workload.attention in {Attention.EAGER, Attention.MATH},
        copies_output=flash and workload.micro_batch_size > 1,
        checkpointing=workload.activation_checkpointing,
        fused_loss=workload.loss is Loss.FUSED_CROSS_ENTROPY,
    )


def build_rank_shape(model: Architecture, layout: Layout) -> RankShape:
    """Return one rank's shape.

    Key and value heads are replicated where there are more ranks than heads.
    """
    spec, ranks = model.spec, layout.tensor_parallel
    kv_heads = max(1, spec.num_key_value_heads // ranks)
    return RankShape(
        hidden=spec.hidden_size,
        heads=spec.num_attention_heads // ranks,
        query=spec.num_attention_heads * spec.head_dim // ranks,
        key=kv_heads * spec.head_dim,
        inner=spec.intermediate_size // ranks,
        gated=spec.gated,
        bias=spec.mlp_bias,
        attention_bias=spec.attention_bias,
        output_bias=spec.attention_output_bias,
        layer_norm=spec.norm.startswith("layer"),
        query_key_norm=spec.query_key_norm,
        head_dim=spec.head_dim,
        learned_positions=0 if spec.rotary else spec.max_position_embeddings,
        hidden_dropout=spec.residual_dropout,
        attention_dropout=spec.attention_dropout,
        vocabulary=ceil_div(spec.vocab_size, VOCABULARY_MULTIPLE * ranks) * VOCABULARY_MULTIPLE,
        tied=spec.tie_word_embeddings,
        tensor_parallel=ranks,
        context_parallel=layout.context_parallel,
        sequence_shards=ranks if layout.sequence_parallel else 1,
        experts=_build_expert_shape(model, layout),
        latent=_build_latent_shape(model),
    )


def count_expert_ranks(layout: Layout) -> int:
    """Count the ranks that split one expert."""
    return (
        layout.tensor_parallel
        if layout.expert_tensor_parallel is None
        else layout.expert_tensor_parallel
    )


def count_expert_replicas(layout: Layout) -> int:
    """Count the ranks that hold the same experts.

    The experts' states are spread over these (core/parallel_state.py).
    """
    ranks = layout.data_parallel * layout.context_parallel * layout.tensor_parallel
    return max(1, ranks // (layout.expert_parallel * count_expert_ranks(layout)))


def _build_expert_shape(model: Architecture, layout: Layout) -> ExpertShape | None:
    spec = model.spec
    if not isinstance(spec, MoeSpec) or not spec.num_experts:
        return None
    return ExpertShape(
        num_experts=spec.num_experts,
        local_experts=spec.num_experts // layout.expert_parallel,
        top_k=spec.num_experts_per_token,
        inner=spec.expert_intermediate_size // count_expert_ranks(layout),
        shared_inner=spec.shared_intermediate_size // layout.tensor_parallel,
        shared_gate=any(
            layer.target == SHARED_GATE for block, _ in model.blocks for layer in block.linears()
        ),
        copies=count_expert_ranks(layout),
    )


def _build_latent_shape(model: Architecture) -> LatentShape | None:
    spec = model.spec
    if not isinstance(spec, LatentSpec):
        return None
    return LatentShape(
        query_latent=spec.query_latent,
        key_value_latent=spec.key_value_latent,
        nope_dim=spec.passed_dim,
        rope_dim=spec.rotary_dim,
        value_dim=spec.value_dim,
    )
