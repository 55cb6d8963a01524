"""GPT-2: layer norms, learned positions, one fused projection, dropout everywhere.

Field names and defaults are those of transformers 5.23 (``models/gpt2/configuration_gpt2.py``).
"""

from dataclasses import replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.config_reader import (
    Config,
    read_flag,
    read_fraction,
    read_head_dim,
    read_integer,
    read_string,
)
from service.estimator.model.modules.layers.block import Block
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import build_decoder
from service.estimator.values.errors import NotModelledError


def gpt2(config: Config) -> DecoderSpec:
    """Return a GPT-2."""
    for name in ("reorder_and_upcast_attn", "add_cross_attention"):
        if read_flag(config, name, default=False):
            raise NotModelledError(f"{name} of gpt2", field=name, modelled=[f"{name}: false"])
    hidden, heads = read_integer(config, "n_embd", 768), read_integer(config, "n_head", 12)
    return DecoderSpec(
        family="gpt2",
        vocab_size=read_integer(config, "vocab_size", 50257),
        hidden_size=hidden,
        num_hidden_layers=read_integer(config, "n_layer", 12),
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=read_head_dim(config, hidden, heads),
        intermediate_size=read_integer(config, "n_inner", 4 * hidden),
        activation=read_string(config, "activation_function", "gelu_new"),
        norm="layer",
        gated=False,
        tie_word_embeddings=read_flag(config, "tie_word_embeddings", default=True),
        attention_bias=True,
        attention_output_bias=True,
        mlp_bias=True,
        fused_projections=True,
        rotary=False,
        max_position_embeddings=read_integer(config, "n_positions", 1024),
        attention_dropout=read_fraction(config, "attn_pdrop", 0.1),
        residual_dropout=read_fraction(config, "resid_pdrop", 0.1),
        embedding_dropout=read_fraction(config, "embd_pdrop", 0.1),
    )


def build(spec: DecoderSpec) -> Architecture:
    """Return the tree of a GPT-2."""
    plain = build_decoder(spec)
    ((block, count),) = plain.blocks
    assert isinstance(block, Block)  # noqa: S101 - what build_decoder makes
    return replace(plain, blocks=((replace(block, names_attention=True), count),))
