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
from service.estimator.model.modules.attention.projections import Attention
from service.estimator.model.modules.layers.block import Block, Mixer
from service.estimator.model.modules.mlp.feedforward import GatedFeedForward
from service.estimator.model.modules.ssm.mamba2 import Mamba2Mixer
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import check_decoder, rotary_buffer_bytes
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.values.errors import InvalidConfigError, NotModelledError

ROTARY_FACTOR = 0.5
"""The share of a head that is rotated (configuration_bamba.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BambaSpec(DecoderSpec):
    """Numbers of a Bamba model.

    ``attention_layers`` are the indices of layers with attention, with commas between; the others
    are mixers.
    """

    attention_layers: str
    rotary_dim: int
    mixer_heads: int
    mixer_head_dim: int
    state_size: int
    num_groups: int
    kernel_size: int
    chunk_size: int
    convolution_bias: bool = True
    projection_bias: bool = False


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
    bias, mixer_heads = (
        read_flag(config, "attention_bias", default=False),
        read_integer(config, "mamba_n_heads", 128),
    )
    expanded = read_integer(config, "mamba_expand", 2) * hidden
    automatic = config.get("mamba_d_head", "auto") == "auto"
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
        mixer_heads=mixer_heads,
        mixer_head_dim=_compute_head_dim(
            expanded, mixer_heads, None if automatic else read_integer(config, "mamba_d_head")
        ),
        state_size=read_integer(config, "mamba_d_state", 256),
        num_groups=read_integer(config, "mamba_n_groups", 1),
        kernel_size=read_integer(config, "mamba_d_conv", 4),
        chunk_size=read_integer(config, "mamba_chunk_size", 256),
        convolution_bias=read_flag(config, "mamba_conv_bias", default=True),
        projection_bias=read_flag(config, "mamba_proj_bias", default=False),
    )


def read_layer_indices(config: Config, name: str) -> str:
    """Read a list of layer indices as text with commas between them."""
    listed = config.get(name) or []
    if not isinstance(listed, list) or not all(isinstance(index, int) for index in listed):
        message = f"{name} is {listed!r}; it must be a list of layers' indices"
        raise InvalidConfigError(message, field=name)
    return ",".join(str(index) for index in listed)


def _compute_head_dim(expanded: int, heads: int, configured: int | None) -> int:
    """Return the size of a mixer's head.

    All heads together make up the expanded width.
    """
    size = expanded // heads if configured is None else configured
    if size * heads != expanded:
        message = (
            f"mamba_n_heads {heads} x mamba_d_head {size} is not mamba_expand x hidden_size = "
            f"{expanded}"
        )
        raise InvalidConfigError(message, field="mamba_n_heads")
    return size


def build(spec: BambaSpec) -> Architecture:
    """Return the tree of two kinds of layer.

    They come in the order that the config gives.
    """
    check_decoder(spec)
    if spec.mixer_heads % spec.num_groups:
        message = (
            f"mamba_n_groups {spec.num_groups} does not divide mamba_n_heads {spec.mixer_heads}"
        )
        raise InvalidConfigError(message, field="mamba_n_groups")
    attention_layers = {int(index) for index in spec.attention_layers.split(",") if index}
    kinds = [index in attention_layers for index in range(spec.num_hidden_layers)]
    present = sorted(set(kinds), key=kinds.index)
    return Architecture(
        spec=spec,
        embedding=Weight("embed_tokens.weight", "embedding", (spec.vocab_size, spec.hidden_size)),
        position_embedding=None,
        blocks=tuple((_build_block(spec, attends=kind), kinds.count(kind)) for kind in present),
        order=tuple(present.index(kind) for kind in kinds),
        final_norm=_build_norm(spec, "final_layernorm"),
        head=Linear(
            name="lm_head",
            kind="lm_head",
            in_features=spec.hidden_size,
            out_features=spec.vocab_size,
        ),
        rotary_tables=(spec.rotary_dim, spec.rotary_dim),
        buffer_bytes=rotary_buffer_bytes(spec.rotary_dim),
        recurrent=True,
        chunked=True,
    )


def _build_block(spec: BambaSpec, *, attends: bool) -> Block:
    mixer: Mixer = _build_attention(spec) if attends else _build_mixer(spec)
    hidden, inner = spec.hidden_size, spec.intermediate_size
    return Block(
        attention_norm=_build_norm(spec, "input_layernorm"),
        attention=mixer,
        feed_forward_norm=_build_norm(spec, "pre_ff_layernorm"),
        feed_forward=GatedFeedForward(
            gate=_build_linear("feed_forward.gate_proj", "mlp", hidden, inner, bias=spec.mlp_bias),
            up=_build_linear("feed_forward.up_proj", "mlp", hidden, inner, bias=spec.mlp_bias),
            down=_build_linear("feed_forward.down_proj", "mlp", inner, hidden, bias=spec.mlp_bias),
            activation=spec.activation,
        ),
    )


def _build_attention(spec: BambaSpec) -> Attention:
    hidden, query, key = (
        spec.hidden_size,
        spec.num_attention_heads * spec.head_dim,
        spec.num_key_value_heads * spec.head_dim,
    )
    return Attention(
        projections=tuple(
            _build_linear(f"self_attn.{name}", "attention", hidden, out, bias=spec.attention_bias)
            for name, out in (("q_proj", query), ("k_proj", key), ("v_proj", key))
        ),
        output=_build_linear(
            "self_attn.o_proj", "attention", query, hidden, bias=spec.attention_output_bias
        ),
        num_heads=spec.num_attention_heads,
        num_kv_heads=spec.num_key_value_heads,
        head_dim=spec.head_dim,
        rotary_dim=spec.rotary_dim,
        dropout=spec.attention_dropout,
    )


def _build_mixer(spec: BambaSpec) -> Mamba2Mixer:
    hidden, inner = spec.hidden_size, spec.mixer_heads * spec.mixer_head_dim
    convolved = inner + 2 * spec.num_groups * spec.state_size
    return Mamba2Mixer(
        in_proj=_build_linear(
            "mamba.in_proj",
            "ssm",
            hidden,
            inner + convolved + spec.mixer_heads,
            bias=spec.projection_bias,
        ),
        out_proj=_build_linear("mamba.out_proj", "ssm", inner, hidden, bias=spec.projection_bias),
        name="mamba",
        num_heads=spec.mixer_heads,
        head_dim=spec.mixer_head_dim,
        state_size=spec.state_size,
        num_groups=spec.num_groups,
        kernel_size=spec.kernel_size,
        chunk_size=spec.chunk_size,
        convolution_bias=spec.convolution_bias,
        activation=spec.activation,
        norm_groups=spec.num_groups,
    )


def _build_norm(spec: BambaSpec, name: str) -> Norm:
    return Norm(name=name, style="rms", size=spec.hidden_size)


def _build_linear(name: str, kind: str, ins: int, outs: int, *, bias: bool) -> Linear:
    return Linear(name=name, kind=kind, in_features=ins, out_features=outs, bias=bias)
