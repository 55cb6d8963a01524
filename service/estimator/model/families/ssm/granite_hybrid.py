"""Granite 4: mixers or attention, experts beside a shared layer, and multipliers.

Field names and defaults are those of transformers 5.23 (``models/granitemoehybrid``).
"""

from dataclasses import dataclass

from service.estimator.model.architecture import Architecture, EmbeddingOutput
from service.estimator.model.config_reader import (
    Config,
    apply_aliases,
    read_count,
    read_flag,
    read_fraction,
    read_head_dim,
    read_integer,
    read_layer_kinds,
    read_string,
)
from service.estimator.model.families.ssm.bamba_parts import (
    HybridSpec,
    build_attention,
    build_linear,
    build_mixer,
    build_norm,
    check_groups,
    read_mixer,
)
from service.estimator.model.modules.layers.block import Block, Mixer, PositionwiseLayer
from service.estimator.model.modules.mlp.experts import Experts, SparseFeedForward
from service.estimator.model.modules.mlp.feedforward import FusedGatedFeedForward
from service.estimator.model.modules.mlp.routers import ChosenSoftmaxRouter
from service.estimator.model.modules.mlp.summed import SummedFeedForward
from service.estimator.model.recording import Recording
from service.estimator.model.trees.decoder import check_decoder, rotary_buffer_bytes
from service.estimator.model.trees.outputs import scale_logits
from service.estimator.model.weights.tensors import Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import chain, multiply_scalar
from service.estimator.tape.ops.products import allocate_integers
from service.estimator.values.errors import InvalidConfigError

_MIXER, _ATTENTION = "M", "*"
_LETTERS = {
    "linear_attention": _MIXER,
    "mamba": _MIXER,
    "full_attention": _ATTENTION,
    "attention": _ATTENTION,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GraniteHybridSpec(HybridSpec):
    """Numbers of a Granite 4.

    ``layer_kinds`` has a letter for each layer, M for a mixer and * for attention;
    ``intermediate_size`` is that of an expert. Without experts only the shared layer is there.
    """

    layer_kinds: str
    shared_intermediate_size: int


SPEC = GraniteHybridSpec


def granitemoehybrid(config: Config) -> GraniteHybridSpec:
    """Return a Granite 4.

    The multipliers' values do not matter; each is an operation.
    """
    hidden, heads = (
        read_integer(config, "hidden_size", 4096),
        read_integer(config, "num_attention_heads", 32),
    )
    layers, experts = (
        read_integer(config, "num_hidden_layers", 32),
        read_count(config, "num_local_experts", 8),
    )
    bias, size = (
        read_flag(config, "attention_bias", default=False),
        read_head_dim(config, hidden, heads),
    )
    rotary = config.get("position_embedding_type") == "rope"
    return GraniteHybridSpec(
        family=read_string(config, "model_type", "granitemoehybrid"),
        vocab_size=read_integer(config, "vocab_size", 32000),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=read_integer(config, "num_key_value_heads", heads),
        head_dim=size,
        intermediate_size=read_integer(config, "intermediate_size", 11008),
        activation=read_string(config, "hidden_act", "silu"),
        tie_word_embeddings=read_flag(config, "tie_word_embeddings", default=False),
        attention_bias=bias,
        attention_output_bias=bias,
        rotary=rotary,
        rotary_dim=size if rotary else 0,
        max_position_embeddings=read_integer(config, "max_position_embeddings", 2048),
        attention_dropout=read_fraction(config, "attention_dropout", 0.0),
        num_experts=experts,
        num_experts_per_token=read_integer(config, "num_experts_per_tok", 2) if experts else 0,
        layer_kinds=_read_kinds(config, layers),
        shared_intermediate_size=read_integer(config, "shared_intermediate_size", 1024),
        **read_mixer(config, hidden),
    )


def _read_kinds(config: Config, layers: int) -> str:
    """Return a letter for each layer; mixers where a config lists none."""
    listed = apply_aliases(config, layer_types="layers_block_type")
    kinds = read_layer_kinds(listed, _MIXER * layers, _LETTERS)
    if len(kinds) < layers:
        message = f"layer_types has {len(kinds)} layers, but num_hidden_layers is {layers}"
        raise InvalidConfigError(message, field="layer_types")
    return kinds[:layers]


def build(spec: GraniteHybridSpec) -> Architecture:
    """Return the tree of mixers and attention.

    They come in the order that the config gives.
    """
    check_decoder(spec)
    check_groups(spec)
    kinds = spec.layer_kinds[: spec.num_hidden_layers]
    present = sorted(set(kinds), key=kinds.index)
    tables = (spec.rotary_dim, spec.rotary_dim) if spec.rotary else ()
    return Architecture(
        spec=spec,
        embedding=Weight("embed_tokens.weight", "embedding", (spec.vocab_size, spec.hidden_size)),
        position_embedding=None,
        blocks=tuple(
            (_build_block(spec, attends=kind == _ATTENTION), kinds.count(kind)) for kind in present
        ),
        order=tuple(present.index(kind) for kind in kinds),
        final_norm=build_norm(spec, "norm"),
        head=build_linear("lm_head", "lm_head", spec.hidden_size, spec.vocab_size),
        rotary_tables=tables,
        buffer_bytes=rotary_buffer_bytes(spec.rotary_dim) if spec.rotary else 0,
        recurrent=_MIXER in kinds,
        chunked=_MIXER in kinds,
        embed=_scale_embedding,
        finish_logits=scale_logits,
    )


def _build_block(spec: GraniteHybridSpec, *, attends: bool) -> Block:
    mixer: Mixer = build_attention(spec) if attends else build_mixer(spec)
    return Block(
        attention_norm=build_norm(spec, "input_layernorm"),
        attention=mixer,
        feed_forward_norm=build_norm(spec, "post_attention_layernorm"),
        feed_forward=_build_feed_forward(spec),
        scales_residual=True,
    )


def _build_feed_forward(spec: GraniteHybridSpec) -> PositionwiseLayer:
    hidden, inner = spec.hidden_size, spec.shared_intermediate_size
    kind = "mlp_shared_expert" if spec.num_experts else "mlp"
    shared = FusedGatedFeedForward(
        gate_up=build_linear("shared_mlp.input_linear", kind, hidden, 2 * inner),
        down=build_linear("shared_mlp.output_linear", kind, inner, hidden),
        activation=spec.activation,
    )
    if not spec.num_experts:
        return shared
    router = ChosenSoftmaxRouter(
        name="block_sparse_moe.router",
        hidden_size=hidden,
        num_experts=spec.num_experts,
        top_k=spec.num_experts_per_token,
    )
    experts = Experts(
        name="block_sparse_moe.experts",
        hidden_size=hidden,
        intermediate_size=spec.intermediate_size,
        num_experts=spec.num_experts,
        num_experts_per_token=spec.num_experts_per_token,
        activation=spec.activation,
    )
    return SummedFeedForward(
        routed=SparseFeedForward(router=router, experts=experts), shared=shared
    )


def _scale_embedding(ctx: Recording, tokens: Value) -> EmbeddingOutput:
    positions = allocate_integers(ctx.tape, ctx.shape.positions(1))
    return EmbeddingOutput(x=chain(ctx.tape, tokens, multiply_scalar), names=(positions,))
