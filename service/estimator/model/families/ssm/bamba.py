"""Bamba: Mamba-2 and attention layers with gated feed-forwards.

Field names and defaults are those of transformers 5.23 (``models/bamba``).
"""

from dataclasses import dataclass

from service.estimator.model.architecture import Architecture
from service.estimator.model.config_reader import (
    Config,
    read_flag,
    read_fraction,
    read_head_dim,
    read_integer,
    read_string,
)
from service.estimator.model.families.moe.configs import read_partial_rotary_factor
from service.estimator.model.families.ssm.bamba_parts import (
    HybridSpec,
    build_attention,
    build_feed_forward,
    build_linear,
    build_mixer,
    build_norm,
    check_groups,
    read_mixer,
)
from service.estimator.model.modules.layers.block import Block, Mixer
from service.estimator.model.modules.mlp.feedforward import GatedFeedForward
from service.estimator.model.trees.decoder import check_decoder, rotary_buffer_bytes
from service.estimator.model.weights.tensors import Weight
from service.estimator.values.errors import InvalidConfigError, NotModelledError

ROTARY_FACTOR = 0.5
"""The share of a head that is rotated (configuration_bamba.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BambaSpec(HybridSpec):
    """Numbers of a Bamba model.

    ``attention_layers`` are the indices of layers with attention, with commas between; the others
    are mixers.
    """

    attention_layers: str


SPEC = BambaSpec


def bamba(config: Config) -> BambaSpec:
    """Return a Bamba."""
    if config.get("z_loss_coefficient"):
        what = f"z_loss_coefficient {config['z_loss_coefficient']}"
        raise NotModelledError(what, field="z_loss_coefficient", modelled=["z_loss_coefficient: 0"])
    hidden, heads = (
        read_integer(config, "hidden_size", 4096),
        read_integer(config, "num_attention_heads", 32),
    )
    bias = read_flag(config, "attention_bias", default=False)
    size = read_head_dim(config, hidden, heads)
    return BambaSpec(
        family=read_string(config, "model_type", "bamba"),
        vocab_size=read_integer(config, "vocab_size", 128000),
        hidden_size=hidden,
        num_hidden_layers=read_integer(config, "num_hidden_layers", 32),
        num_attention_heads=heads,
        num_key_value_heads=read_integer(config, "num_key_value_heads", 8),
        head_dim=size,
        intermediate_size=read_integer(config, "intermediate_size", 14336),
        activation=read_string(config, "hidden_act", "silu"),
        tie_word_embeddings=read_flag(config, "tie_word_embeddings", default=False),
        attention_bias=bias,
        attention_output_bias=bias,
        mlp_bias=read_flag(config, "mlp_bias", default=False),
        max_position_embeddings=read_integer(config, "max_position_embeddings", 262144),
        attention_dropout=read_fraction(config, "attention_dropout", 0.0),
        attention_layers=read_layer_indices(config, "attn_layer_indices"),
        rotary_dim=int(size * read_partial_rotary_factor(config, ROTARY_FACTOR)),
        **read_mixer(config, hidden),
    )


def read_layer_indices(config: Config, name: str) -> str:
    """Read a list of layer indices as text with commas between them."""
    listed = config.get(name) or []
    if not isinstance(listed, list) or not all(isinstance(index, int) for index in listed):
        message = f"{name} is {listed!r}; it must be a list of layers' indices"
        raise InvalidConfigError(message, field=name)
    return ",".join(str(index) for index in listed)


def build(spec: BambaSpec) -> Architecture:
    """Return the tree of two kinds of layer.

    They come in the order that the config gives.
    """
    check_decoder(spec)
    check_groups(spec)
    attention_layers = {int(index) for index in spec.attention_layers.split(",") if index}
    kinds = [index in attention_layers for index in range(spec.num_hidden_layers)]
    present = sorted(set(kinds), key=kinds.index)
    return Architecture(
        spec=spec,
        embedding=Weight("embed_tokens.weight", "embedding", (spec.vocab_size, spec.hidden_size)),
        position_embedding=None,
        blocks=tuple((_build_block(spec, attends=kind), kinds.count(kind)) for kind in present),
        order=tuple(present.index(kind) for kind in kinds),
        final_norm=build_norm(spec, "final_layernorm"),
        head=build_linear("lm_head", "lm_head", spec.hidden_size, spec.vocab_size),
        rotary_tables=(spec.rotary_dim, spec.rotary_dim),
        buffer_bytes=rotary_buffer_bytes(spec.rotary_dim),
        recurrent=True,
        chunked=True,
    )


def _build_block(spec: BambaSpec, *, attends: bool) -> Block:
    mixer: Mixer = build_attention(spec) if attends else build_mixer(spec)
    return Block(
        attention_norm=build_norm(spec, "input_layernorm"),
        attention=mixer,
        feed_forward_norm=build_norm(spec, "pre_ff_layernorm"),
        feed_forward=build_feed_forward(spec, GatedFeedForward),
    )
