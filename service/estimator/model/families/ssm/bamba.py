"""Bamba: Mamba-2 and attention layers in turn, each followed by a gated layer.

Field names and defaults are those of transformers 5.23 (``models/bamba``).
"""

from dataclasses import dataclass

from service.estimator.model.architecture import Architecture
from service.estimator.model.config_reader import Config, flag, head_dim, integer, number, word
from service.estimator.model.families.moe.configs import partial_rotary_factor
from service.estimator.model.modules.attention.projections import Attention
from service.estimator.model.modules.layers.block import Block, Mixer
from service.estimator.model.modules.mlp.feedforward import GatedFeedForward
from service.estimator.model.modules.ssm.mamba2 import Mamba2Mixer
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import check_decoder, rotary_buffer_bytes
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.values.errors import InvalidConfigError, NotModelledError

ROTATED = 0.5
"""The share of a head that is rotated (configuration_bamba.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BambaSpec(DecoderSpec):
    """A Bamba: ``attention_layers`` are the indices of layers with attention, with commas between; the rest are mixers."""

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
    hidden, heads = integer(config, "hidden_size", 4096), integer(config, "num_attention_heads", 32)
    bias, mixer_heads = flag(config, "attention_bias", default=False), integer(config, "mamba_n_heads", 128)
    expanded = integer(config, "mamba_expand", 2) * hidden
    automatic = config.get("mamba_d_head", "auto") == "auto"
    size = head_dim(config, hidden, heads)
    return BambaSpec(
        family=word(config, "model_type", "bamba"),
        vocab_size=integer(config, "vocab_size", 128000),
        hidden_size=hidden,
        num_hidden_layers=integer(config, "num_hidden_layers", 32),
        num_attention_heads=heads,
        num_key_value_heads=integer(config, "num_key_value_heads", 8),
        head_dim=size,
        intermediate_size=integer(config, "intermediate_size", 14336),
        activation=word(config, "hidden_act", "silu"),
        tie_word_embeddings=flag(config, "tie_word_embeddings", default=False),
        attention_bias=bias,
        attention_output_bias=bias,
        mlp_bias=flag(config, "mlp_bias", default=False),
        attention_dropout=number(config, "attention_dropout", 0.0),
        attention_layers=indices(config, "attn_layer_indices"),
        rotary_dim=int(size * partial_rotary_factor(config, ROTATED)),
        mixer_heads=mixer_heads,
        mixer_head_dim=_head(expanded, mixer_heads, None if automatic else integer(config, "mamba_d_head")),
        state_size=integer(config, "mamba_d_state", 256),
        num_groups=integer(config, "mamba_n_groups", 1),
        kernel_size=integer(config, "mamba_d_conv", 4),
        chunk_size=integer(config, "mamba_chunk_size", 256),
        convolution_bias=flag(config, "mamba_conv_bias", default=True),
        projection_bias=flag(config, "mamba_proj_bias", default=False),
    )


def indices(config: Config, name: str) -> str:
    """Return a list of layers' indices with commas between them."""
    listed = config.get(name) or []
    if not isinstance(listed, list) or not all(isinstance(index, int) for index in listed):
        message = f"{name} is {listed!r}; it must be a list of layers' indices"
        raise InvalidConfigError(message, field=name)
    return ",".join(str(index) for index in listed)


def _head(expanded: int, heads: int, given: int | None) -> int:
    """Return the size of a mixer's head: all of them make up the expanded width."""
    size = expanded // heads if given is None else given
    if size * heads != expanded:
        message = f"mamba_n_heads {heads} x mamba_d_head {size} is not mamba_expand x hidden_size = {expanded}"
        raise InvalidConfigError(message, field="mamba_n_heads")
    return size


def build(spec: BambaSpec) -> Architecture:
    """Return the tree: two kinds of layer, in the order that the config gives."""
    check_decoder(spec)
    if spec.mixer_heads % spec.num_groups:
        message = f"mamba_n_groups {spec.num_groups} does not divide mamba_n_heads {spec.mixer_heads}"
        raise InvalidConfigError(message, field="mamba_n_groups")
    attending = {int(index) for index in spec.attention_layers.split(",") if index}
    kinds = [index in attending for index in range(spec.num_hidden_layers)]
    present = sorted(set(kinds), key=kinds.index)
    return Architecture(
        spec=spec,
        embedding=Weight("embed_tokens.weight", "embedding", (spec.vocab_size, spec.hidden_size)),
        position_embedding=None,
        blocks=tuple((_block(spec, attends=kind), kinds.count(kind)) for kind in present),
        order=tuple(present.index(kind) for kind in kinds),
        final_norm=_norm(spec, "final_layernorm"),
        head=Linear(name="lm_head", kind="lm_head", in_features=spec.hidden_size, out_features=spec.vocab_size),
        rotary_tables=(spec.rotary_dim, spec.rotary_dim),
        buffer_bytes=rotary_buffer_bytes(spec.rotary_dim),
        recurrent=True,
        chunked=True,
    )


def _block(spec: BambaSpec, *, attends: bool) -> Block:
    mixer: Mixer = _attention(spec) if attends else _mixer(spec)
    hidden, inner = spec.hidden_size, spec.intermediate_size
    return Block(
        attention_norm=_norm(spec, "input_layernorm"),
        attention=mixer,
        feed_forward_norm=_norm(spec, "pre_ff_layernorm"),
        feed_forward=GatedFeedForward(
            gate=_linear("feed_forward.gate_proj", "mlp", hidden, inner, bias=spec.mlp_bias),
            up=_linear("feed_forward.up_proj", "mlp", hidden, inner, bias=spec.mlp_bias),
            down=_linear("feed_forward.down_proj", "mlp", inner, hidden, bias=spec.mlp_bias),
            activation=spec.activation,
        ),
    )


def _attention(spec: BambaSpec) -> Attention:
    hidden, query, key = (
        spec.hidden_size,
        spec.num_attention_heads * spec.head_dim,
        spec.num_key_value_heads * spec.head_dim,
    )
    return Attention(
        projections=tuple(
            _linear(f"self_attn.{name}", "attention", hidden, out, bias=spec.attention_bias)
            for name, out in (("q_proj", query), ("k_proj", key), ("v_proj", key))
        ),
        output=_linear("self_attn.o_proj", "attention", query, hidden, bias=spec.attention_output_bias),
        num_heads=spec.num_attention_heads,
        num_kv_heads=spec.num_key_value_heads,
        head_dim=spec.head_dim,
        rotary_dim=spec.rotary_dim,
        dropout=spec.attention_dropout,
    )


def _mixer(spec: BambaSpec) -> Mamba2Mixer:
    hidden, inner = spec.hidden_size, spec.mixer_heads * spec.mixer_head_dim
    convolved = inner + 2 * spec.num_groups * spec.state_size
    return Mamba2Mixer(
        entry=_linear("mamba.in_proj", "ssm", hidden, inner + convolved + spec.mixer_heads, bias=spec.projection_bias),
        output=_linear("mamba.out_proj", "ssm", inner, hidden, bias=spec.projection_bias),
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


def _norm(spec: BambaSpec, name: str) -> Norm:
    return Norm(name=name, style="rms", size=spec.hidden_size)


def _linear(name: str, kind: str, ins: int, outs: int, *, bias: bool) -> Linear:
    return Linear(name=name, kind=kind, in_features=ins, out_features=outs, bias=bias)
