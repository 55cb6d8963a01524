"""Mixers and attention of hybrids that are made as Bamba is.

They are those of transformers 5.23.
"""

from dataclasses import dataclass
from typing import Any

from service.estimator.model.config_reader import Config, read_flag, read_integer
from service.estimator.model.modules.attention.projections import Attention
from service.estimator.model.modules.mlp.feedforward import GatedFeedForward
from service.estimator.model.modules.ssm.mamba2 import Mamba2Mixer
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.weights.tensors import Linear, Norm
from service.estimator.values.errors import InvalidConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class MixerSpec(DecoderSpec):
    """Numbers of a decoder with Mamba-2 mixers."""

    mixer_heads: int
    mixer_head_dim: int
    state_size: int
    num_groups: int
    kernel_size: int
    chunk_size: int
    convolution_bias: bool = True
    projection_bias: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridSpec(MixerSpec):
    """Numbers of a decoder with such mixers and rotated attention."""

    rotary_dim: int


def read_mixer(config: Config, hidden: int, inner: int | None = None) -> dict[str, Any]:
    """Return the numbers of mixers, by the fields of ``HybridSpec``.

    ``inner`` are the channels of all heads, where the config names them.
    """
    heads = read_integer(config, "mamba_n_heads", 128)
    automatic = config.get("mamba_d_head", "auto") in {"auto", None}
    return {
        "mixer_heads": heads,
        "mixer_head_dim": _compute_head_dim(
            inner or read_integer(config, "mamba_expand", 2) * hidden,
            heads,
            None if automatic else read_integer(config, "mamba_d_head"),
        ),
        "state_size": read_integer(config, "mamba_d_state", 256),
        "num_groups": read_integer(config, "mamba_n_groups", 1),
        "kernel_size": read_integer(config, "mamba_d_conv", 4),
        "chunk_size": read_integer(config, "mamba_chunk_size", 256),
        "convolution_bias": read_flag(config, "mamba_conv_bias", default=True),
        "projection_bias": read_flag(config, "mamba_proj_bias", default=False),
    }


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


def check_groups(spec: HybridSpec) -> None:
    """Refuse groups that do not divide the heads."""
    if spec.mixer_heads % spec.num_groups:
        message = (
            f"mamba_n_groups {spec.num_groups} does not divide mamba_n_heads {spec.mixer_heads}"
        )
        raise InvalidConfigError(message, field="mamba_n_groups")


def build_attention(spec: HybridSpec) -> Attention:
    """Return the attention of a hybrid's layer."""
    hidden, query, key = (
        spec.hidden_size,
        spec.num_attention_heads * spec.head_dim,
        spec.num_key_value_heads * spec.head_dim,
    )
    return Attention(
        projections=tuple(
            build_linear(f"self_attn.{name}", "attention", hidden, out, bias=spec.attention_bias)
            for name, out in (("q_proj", query), ("k_proj", key), ("v_proj", key))
        ),
        output=build_linear(
            "self_attn.o_proj", "attention", query, hidden, bias=spec.attention_output_bias
        ),
        num_heads=spec.num_attention_heads,
        num_kv_heads=spec.num_key_value_heads,
        head_dim=spec.head_dim,
        rotary=spec.rotary,
        rotary_dim=spec.rotary_dim,
        dropout=spec.attention_dropout,
    )


def build_mixer(spec: MixerSpec, name: str = "mamba", activation: str | None = None) -> Mamba2Mixer:
    """Return the mixer of a hybrid's layer.

    Its activation is the model's where none is named.
    """
    hidden, inner = spec.hidden_size, spec.mixer_heads * spec.mixer_head_dim
    convolved = inner + 2 * spec.num_groups * spec.state_size
    return Mamba2Mixer(
        in_proj=build_linear(
            f"{name}.in_proj",
            "ssm",
            hidden,
            inner + convolved + spec.mixer_heads,
            bias=spec.projection_bias,
        ),
        out_proj=build_linear(f"{name}.out_proj", "ssm", inner, hidden, bias=spec.projection_bias),
        name=name,
        num_heads=spec.mixer_heads,
        head_dim=spec.mixer_head_dim,
        state_size=spec.state_size,
        num_groups=spec.num_groups,
        kernel_size=spec.kernel_size,
        chunk_size=spec.chunk_size,
        convolution_bias=spec.convolution_bias,
        activation=activation or spec.activation,
        norm_groups=spec.num_groups,
    )


def build_feed_forward(spec: HybridSpec, kind: type[GatedFeedForward]) -> GatedFeedForward:
    """Return the gated feed-forward of a hybrid's layer."""
    hidden, inner, bias = spec.hidden_size, spec.intermediate_size, spec.mlp_bias
    return kind(
        gate=build_linear("feed_forward.gate_proj", "mlp", hidden, inner, bias=bias),
        up=build_linear("feed_forward.up_proj", "mlp", hidden, inner, bias=bias),
        down=build_linear("feed_forward.down_proj", "mlp", inner, hidden, bias=bias),
        activation=spec.activation,
    )


def build_norm(spec: HybridSpec, name: str) -> Norm:
    """Return a norm of the hidden states."""
    return Norm(name=name, style="rms", size=spec.hidden_size)


def build_linear(name: str, kind: str, ins: int, outs: int, *, bias: bool = False) -> Linear:
    """Return a linear layer."""
    return Linear(name=name, kind=kind, in_features=ins, out_features=outs, bias=bias)
