"""Numbers of a model as one rank of Megatron-LM holds them.

Heads, inner features and experts are those of this rank.
"""

from dataclasses import dataclass

from service.estimator.model.architecture import Architecture
from service.estimator.model.families.moe.deepseek import LatentSpec
from service.estimator.model.families.moe.tree import MoeSpec
from service.estimator.values.layout import Layout
from service.estimator.values.losses import Loss
from service.estimator.values.megatron import (
    CrossEntropyFusion,
    MegatronOptions,
    TokenDispatcher,
    TransformerImpl,
)
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import Attention, Checkpointing, TrainWorkload

VOCABULARY_MULTIPLE = 128
"""Rows of the embedding are padded to a multiple of this per tensor-parallel rank
(``--make-vocab-size-divisible-by``).
"""

SHARED_GATE = "shared_expert_gate"
_SHORTEST_ROW, _SHORT_ROW, _LONGEST_ROW, _ROW_MULTIPLE = 16, 128, 4096, 4
"""Keys of a row that the softmax kernel takes: more than the first, up to the third."""


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
    gathering_ranks: int
    """Expert and tensor ranks that gather all their tokens, where experts see every token."""


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
    copied_softmax: bool
    """Whether the loss copies the softmax in backward: Megatron-LM's own fused cross entropy."""
    has_mask: bool
    """Whether the data loader makes attention masks."""
    local: bool
    """Whether Megatron Core's own layers run."""
    fused_softmax: bool
    fp32_softmax: bool
    gathers_tokens: bool
    """Whether each rank of the experts gathers all tokens."""
    joins_experts: bool
    """Whether experts run one after the other, and their outputs are joined."""
    fuses_gradients: bool
    """Whether products add to the gradients of weights themselves."""


def resolve_switches(workload: TrainWorkload, *, heads: int, fused_attention: bool) -> Switches:
    """Return the switches of a workload on ranks of so many ``heads``.

    Left to itself, Transformer Engine takes cuDNN's ``fused_attention`` where it can. It can from
    Hopper on (attention/dot_product_attention/utils.py), but for reproducible results on a
    Blackwell, where both tests of it hold flash-attn 2's copy.
    """
    flash, options = workload.attention is Attention.FLASH or not fused_attention, workload.megatron
    local = options.transformer_impl is TransformerImpl.LOCAL
    is_fused = workload.loss is Loss.FUSED_CROSS_ENTROPY
    by_engine = options.cross_entropy_fusion_impl is CrossEntropyFusion.TE
    return Switches(
        unfused=local or workload.attention in {Attention.EAGER, Attention.MATH},
        copies_output=flash and workload.micro_batch_size > 1,
        checkpointing=workload.activation_checkpointing,
        fused_loss=is_fused and by_engine,
        copied_softmax=is_fused and not by_engine,
        has_mask=options.create_attention_mask,
        local=local,
        fused_softmax=_fuses_softmax(workload, options, heads),
        fp32_softmax=options.attention_softmax_in_fp32,
        gathers_tokens=options.moe_token_dispatcher_type is TokenDispatcher.ALLGATHER,
        joins_experts=not options.moe_grouped_gemm,
        fuses_gradients=options.gradient_accumulation_fusion,
    )


def _fuses_softmax(workload: TrainWorkload, options: MegatronOptions, heads: int) -> bool:
    """Return whether the kernel of scale, mask and softmax takes the scores.

    (core/fusions/fused_softmax.py, ``is_kernel_available``; apex's
    ``scaled_masked_softmax.h``, ``get_batch_per_block``: 128 threads, 32 to a row, two rows where
    they are short.)
    """
    length, rows = workload.sequence_length, workload.micro_batch_size * heads
    rows_per_block = 4 * (2 if length <= _SHORT_ROW else 1)
    return (
        options.masked_softmax_fusion
        and _SHORTEST_ROW < length <= _LONGEST_ROW
        and length % _ROW_MULTIPLE == 0
        and rows % rows_per_block == 0
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
        gathering_ranks=layout.expert_parallel * count_expert_ranks(layout),
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
