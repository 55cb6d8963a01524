"""Module trees of decoders with experts."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from service.estimator.model.architecture import Architecture, EmbeddingOutput
from service.estimator.model.modules.attention.projections import Attention as SelfAttention
from service.estimator.model.modules.layers.block import Block, Mixer
from service.estimator.model.modules.mlp.experts import Experts, SharedExpert, SparseFeedForward
from service.estimator.model.modules.mlp.feedforward import GatedFeedForward
from service.estimator.model.modules.mlp.group_routers import (
    GroupedSigmoidRouter,
    ScaledSoftmaxRouter,
)
from service.estimator.model.modules.mlp.routers import (
    BiasedRouter,
    ChosenSoftmaxRouter,
    Router,
    SoftmaxRouter,
)
from service.estimator.model.recording import Recording
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import build_decoder, rotary_buffer_bytes
from service.estimator.model.trees.outputs import scale_embedding, scale_logits
from service.estimator.model.weights.tensors import Linear, Norm
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.products import allocate_integers
from service.estimator.values.errors import InvalidConfigError
from service.estimator.values.workload import Attention

_EXPERTS_FIRST = frozenset(
    {"deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe", "glm_moe_dsa", "qwen3_moe"}
)
"""Families whose layers make their experts before the router (transformers 5.23, their
``modeling_*.py``); a loop over parameters holds what it made for the one before.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoeSpec(DecoderSpec):
    """Numbers of a decoder with experts.

    ``intermediate_size`` is that of its dense layers, the first ``first_dense_layers``.
    """

    router: str
    expert_intermediate_size: int
    shared_intermediate_size: int = 0
    first_dense_layers: int = 0
    renormalised: bool = False
    num_expert_groups: int = 1
    num_chosen_groups: int = 1
    rotary_dim: int = 0
    """Rotated elements of a head; 0 is all."""
    spare_mask: bool = False
    """Whether a mask for sliding layers, of which there are none, is made beside the full one
    (qwen2_moe: a window of 0).
    """
    wide_query_key_norm: bool = False
    """One norm over all heads of the query, and of the key."""


def build_moe(spec: MoeSpec, attention: Mixer | None = None) -> Architecture:
    """Return the tree of a decoder with experts.

    Dense layers come first, then those with experts; ``attention`` is the family's own, if any.
    """
    _check_router(spec)
    plain = build_decoder(spec)
    dense = plain.blocks[0][0]
    assert isinstance(dense, Block)  # noqa: S101 - build_decoder makes no other
    scaled = spec.router == "softmax_of_chosen"
    dense = replace(
        dense, attention=attention or _build_attention(spec, dense), scales_residual=scaled
    )
    sparse = replace(dense, feed_forward=build_sparse_feed_forward(spec))
    num_dense = min(spec.first_dense_layers, spec.num_hidden_layers)
    rotated = spec.rotary_dim or spec.head_dim
    kinds = [
        (block, n)
        for block, n in ((dense, num_dense), (sparse, spec.num_hidden_layers - num_dense))
        if n
    ]
    corrections = [correction_bytes(spec) * (block is sparse) for block, _ in kinds]
    return replace(
        plain,
        blocks=tuple(kinds),
        rotary_tables=(rotated, rotated),
        buffer_bytes=rotary_buffer_bytes(rotated)
        + sum(size * n for size, (_, n) in zip(corrections, kinds, strict=True)),
        layer_buffer_bytes=tuple(corrections),
        embed=scale_embedding if scaled else _embed_with_spare_mask if spec.spare_mask else None,
        finish_logits=scale_logits if scaled else None,
    )


def build_sparse_feed_forward(spec: MoeSpec) -> SparseFeedForward:
    """Build the feed-forward layer with experts."""
    prefix = "block_sparse_moe" if spec.router == "softmax_of_chosen" else "mlp"
    experts = Experts(
        name=f"{prefix}.experts",
        hidden_size=spec.hidden_size,
        intermediate_size=spec.expert_intermediate_size,
        num_experts=spec.num_experts,
        num_experts_per_token=spec.num_experts_per_token,
        activation=spec.activation,
        clamped=spec.router == "biased",
    )
    return SparseFeedForward(
        router=_ROUTERS[spec.router](spec),
        experts=experts,
        shared=_build_shared_expert(spec),
        experts_first=spec.family in _EXPERTS_FIRST,
    )


def correction_bytes(spec: MoeSpec) -> int:
    """Return the bytes of a router's correction bias: an fp32 buffer."""
    return 4 * spec.num_experts if spec.router == "grouped_sigmoid" else 0


def _check_router(spec: MoeSpec) -> None:
    if spec.router not in _ROUTERS:
        message = f"router {spec.router!r} is not known; known: {', '.join(sorted(_ROUTERS))}"
        raise InvalidConfigError(message, field="router")
    if spec.num_experts % spec.num_expert_groups or spec.num_chosen_groups > spec.num_expert_groups:
        message = (
            f"{spec.num_experts} experts in {spec.num_expert_groups} groups, of which "
            f"{spec.num_chosen_groups} are chosen"
        )
        raise InvalidConfigError(message, field="n_group")


def _build_attention(spec: MoeSpec, dense: Block) -> SelfAttention:
    assert isinstance(dense.attention, SelfAttention)  # noqa: S101 - build_decoder makes no other
    attention = replace(dense.attention, rotary_dim=spec.rotary_dim)
    if not spec.wide_query_key_norm:
        return attention
    widths = (spec.num_attention_heads * spec.head_dim, spec.num_key_value_heads * spec.head_dim)
    query, key = (
        Norm(name=f"self_attn.{name}", style="rms", size=width)
        for name, width in zip(("q_norm", "k_norm"), widths, strict=True)
    )
    return replace(attention, query_norm=query, key_norm=key)


def _build_shared_expert(spec: MoeSpec) -> SharedExpert | None:
    if not spec.shared_intermediate_size:
        return None
    gated = spec.router == "softmax"
    name, hidden, inner = (
        "mlp.shared_expert" if gated else "mlp.shared_experts",
        spec.hidden_size,
        spec.shared_intermediate_size,
    )
    layer = GatedFeedForward(
        gate=Linear(
            name=f"{name}.gate_proj",
            kind="mlp_shared_expert",
            in_features=hidden,
            out_features=inner,
        ),
        up=Linear(
            name=f"{name}.up_proj", kind="mlp_shared_expert", in_features=hidden, out_features=inner
        ),
        down=Linear(
            name=f"{name}.down_proj",
            kind="mlp_shared_expert",
            in_features=inner,
            out_features=hidden,
        ),
        activation=spec.activation,
    )
    if not gated:
        return SharedExpert(layer=layer)
    gate = Linear(name="mlp.shared_expert_gate", kind="router", in_features=hidden, out_features=1)
    return SharedExpert(layer=layer, gate=gate, runs_first=True)


def _build_softmax_router(spec: MoeSpec) -> SoftmaxRouter:
    return SoftmaxRouter(
        name="mlp.gate",
        hidden_size=spec.hidden_size,
        num_experts=spec.num_experts,
        top_k=spec.num_experts_per_token,
        renormalised=spec.renormalised,
        keeps_fp32=spec.router == "softmax_fp32",
    )


def _build_chosen_softmax_router(spec: MoeSpec) -> ChosenSoftmaxRouter:
    return ChosenSoftmaxRouter(
        name="block_sparse_moe.router",
        hidden_size=spec.hidden_size,
        num_experts=spec.num_experts,
        top_k=spec.num_experts_per_token,
    )


def _build_biased_router(spec: MoeSpec) -> BiasedRouter:
    return BiasedRouter(
        name="mlp.router",
        hidden_size=spec.hidden_size,
        num_experts=spec.num_experts,
        top_k=spec.num_experts_per_token,
    )


def _build_scaled_softmax_router(spec: MoeSpec) -> ScaledSoftmaxRouter:
    return ScaledSoftmaxRouter(
        name="mlp.gate",
        hidden_size=spec.hidden_size,
        num_experts=spec.num_experts,
        top_k=spec.num_experts_per_token,
        num_groups=spec.num_expert_groups * (spec.router == "grouped_softmax"),
        num_chosen_groups=spec.num_chosen_groups,
    )


def _build_grouped_sigmoid_router(spec: MoeSpec) -> GroupedSigmoidRouter:
    return GroupedSigmoidRouter(
        name="mlp.gate",
        hidden_size=spec.hidden_size,
        num_experts=spec.num_experts,
        top_k=spec.num_experts_per_token,
        num_groups=spec.num_expert_groups,
        num_chosen_groups=spec.num_chosen_groups,
        renormalised=spec.renormalised,
    )


_ROUTERS: dict[str, Callable[[MoeSpec], Router]] = {
    "softmax": _build_softmax_router,
    "softmax_fp32": _build_softmax_router,
    "softmax_of_chosen": _build_chosen_softmax_router,
    "biased": _build_biased_router,
    "scaled_softmax": _build_scaled_softmax_router,
    "grouped_softmax": _build_scaled_softmax_router,
    "grouped_sigmoid": _build_grouped_sigmoid_router,
}


def _embed_with_spare_mask(ctx: Recording, tokens: Value) -> EmbeddingOutput:
    positions = allocate_integers(ctx.tape, ctx.shape.positions(1))
    length = ctx.cache.length if ctx.cache is not None else None
    if length is not None and ctx.shape.own_positions:
        return EmbeddingOutput(x=tokens, layer_args=(positions,))
    mask = _make_spare_mask(ctx, length)
    return EmbeddingOutput(x=tokens, names=(mask,), layer_args=(positions,))


def _make_spare_mask(ctx: Recording, length: int | None) -> Value:
    """Return the spare mask as the kernel takes it.

    It has booleans, or numbers to add where the model's own code does the attention, over all
    ``length`` tokens of a static cache. For such a cache ``generate`` makes the masks itself, and
    none of a kind that no layer has (transformers 5.23 ``create_masks_for_generate``).
    """
    shape = ctx.shape
    if length is not None:
        shape = replace(shape, window=length, static=not shape.decoding)
    if ctx.settings.attention is Attention.EAGER:
        return allocate_integers(
            ctx.tape, shape.mask(1), bytes_each=ctx.table_dtype.bytes_per_element
        )
    return allocate_integers(ctx.tape, shape.shared_mask(1), bytes_each=1)
