"""Falcon-H1 (arXiv:2507.22448): a mixer and attention side by side in every layer.

Field names and defaults are those of transformers 5.23 (``models/falcon_h1``).
"""

from dataclasses import dataclass, replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.config_reader import (
    Config,
    read_flag,
    read_fraction,
    read_head_dim,
    read_integer,
    read_string,
)
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
from service.estimator.model.modules.mlp.scaled import ScaledFeedForward
from service.estimator.model.modules.ssm.side_by_side import SideBySideBlock
from service.estimator.model.trees.decoder import check_decoder, rotary_buffer_bytes
from service.estimator.model.trees.outputs import scale_embedding, scale_logits
from service.estimator.model.weights.tensors import Weight
from service.estimator.values.errors import NotModelledError

_INNER = 1024
"""``mamba_d_ssm`` where a config has none (configuration_falcon_h1.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FalconH1Spec(HybridSpec):
    """Numbers of a Falcon-H1."""

    mixer_norm: bool = False
    output_bias: bool = False
    """Bias of the layer out of a mixer (``projectors_bias``)."""


SPEC = FalconH1Spec


def falcon_h1(config: Config) -> FalconH1Spec:
    """Return a Falcon-H1.

    The multipliers' values do not matter; each is an operation.
    """
    hidden, heads = (
        read_integer(config, "hidden_size", 4096),
        read_integer(config, "num_attention_heads", 32),
    )
    normed = read_flag(config, "mamba_rms_norm", default=False)
    if normed and read_flag(config, "mamba_norm_before_gate", default=True):
        raise NotModelledError(
            "mamba_norm_before_gate of falcon_h1",
            field="mamba_norm_before_gate",
            modelled=["mamba_norm_before_gate: false", "mamba_rms_norm: false"],
        )
    bias, size = (
        read_flag(config, "attention_bias", default=False),
        read_head_dim(config, hidden, heads),
    )
    expanded = "mamba_d_ssm" in config and config["mamba_d_ssm"] is None
    inner = None if expanded else read_integer(config, "mamba_d_ssm", _INNER)
    return FalconH1Spec(
        family=read_string(config, "model_type", "falcon_h1"),
        vocab_size=read_integer(config, "vocab_size", 128000),
        hidden_size=hidden,
        num_hidden_layers=read_integer(config, "num_hidden_layers", 32),
        num_attention_heads=heads,
        num_key_value_heads=heads
        if "num_key_value_heads" in config and config["num_key_value_heads"] is None
        else read_integer(config, "num_key_value_heads", 8),
        head_dim=size,
        intermediate_size=read_integer(config, "intermediate_size", 14336),
        activation=read_string(config, "hidden_act", "silu"),
        tie_word_embeddings=read_flag(config, "tie_word_embeddings", default=False),
        attention_bias=bias,
        attention_output_bias=bias,
        mlp_bias=read_flag(config, "mlp_bias", default=False),
        max_position_embeddings=read_integer(config, "max_position_embeddings", 8192),
        attention_dropout=read_fraction(config, "attention_dropout", 0.0),
        rotary_dim=size,
        mixer_norm=normed,
        output_bias=read_flag(config, "projectors_bias", default=False),
        **read_mixer(config, hidden, inner),
    )


def build(spec: FalconH1Spec) -> Architecture:
    """Return the tree of layers that are all alike."""
    check_decoder(spec)
    check_groups(spec)
    block = _build_block(spec)
    elements = block.mixer.in_proj.out_features
    return Architecture(
        spec=spec,
        embedding=Weight("embed_tokens.weight", "embedding", (spec.vocab_size, spec.hidden_size)),
        position_embedding=None,
        blocks=((block, spec.num_hidden_layers),),
        final_norm=build_norm(spec, "final_layernorm"),
        head=build_linear("lm_head", "lm_head", spec.hidden_size, spec.vocab_size),
        rotary_tables=(spec.rotary_dim, spec.rotary_dim),
        buffer_bytes=rotary_buffer_bytes(spec.rotary_dim),
        buffer_elements=elements * spec.num_hidden_layers,
        layer_buffer_elements=elements,
        recurrent=True,
        chunked=True,
        embed=scale_embedding,
        finish_logits=scale_logits,
    )


def _build_block(spec: FalconH1Spec) -> SideBySideBlock:
    mixer = build_mixer(spec)
    out_proj = replace(mixer.out_proj, bias=spec.output_bias)
    return SideBySideBlock(
        norm=build_norm(spec, "input_layernorm"),
        mixer=replace(
            mixer,
            out_proj=out_proj,
            norm_groups=spec.num_groups if spec.mixer_norm else 0,
            scaled=True,
        ),
        attention=replace(build_attention(spec), scaled_key=True),
        feed_forward_norm=build_norm(spec, "pre_ff_layernorm"),
        feed_forward=build_feed_forward(spec, ScaledFeedForward),
    )
