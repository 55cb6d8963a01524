"""GPT-BigCode (StarCoder, SantaCoder): GPT-2 with multi-query attention.

It has linear layers, one key and value head, and a causal mask as a buffer. Field names and
defaults are those of transformers 5.23 (``models/gpt_bigcode/configuration_gpt_bigcode.py``).
"""

from dataclasses import replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.config_reader import (
    Config,
    apply_aliases,
    read_flag,
    read_fraction,
    read_head_dim,
    read_integer,
    read_string,
)
from service.estimator.model.modules.attention.projections import Attention
from service.estimator.model.modules.layers.block import Block
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import build_decoder
from service.estimator.values.errors import NotModelledError


def gpt_bigcode(config: Config) -> DecoderSpec:
    """Return a GPT-BigCode."""
    if read_flag(config, "add_cross_attention", default=False):
        what = "add_cross_attention of gpt_bigcode"
        raise NotModelledError(
            what, field="add_cross_attention", modelled=["add_cross_attention: false"]
        )
    config = apply_aliases(
        config,
        n_embd="hidden_size",
        n_head="num_attention_heads",
        n_layer="num_hidden_layers",
        n_positions="max_position_embeddings",
    )
    hidden, heads = read_integer(config, "n_embd", 768), read_integer(config, "n_head", 12)
    return DecoderSpec(
        family="gpt_bigcode",
        vocab_size=read_integer(config, "vocab_size", 50257),
        hidden_size=hidden,
        num_hidden_layers=read_integer(config, "n_layer", 12),
        num_attention_heads=heads,
        num_key_value_heads=1 if read_flag(config, "multi_query", default=True) else heads,
        head_dim=read_head_dim(config, hidden, heads),
        intermediate_size=read_integer(config, "n_inner", 4 * hidden),
        activation=read_string(config, "activation_function", "gelu_pytorch_tanh"),
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
    """Return the tree of a GPT-BigCode.

    Every pair of positions has a byte in the mask.
    """
    plain = build_decoder(spec)
    ((block, count),) = plain.blocks
    assert isinstance(block, Block)  # noqa: S101 - what build_decoder makes
    assert isinstance(block.attention, Attention)  # noqa: S101 - what build_decoder makes
    block = replace(
        block, names_attention=True, attention=replace(block.attention, upcast_softmax=True)
    )
    return replace(plain, blocks=((block, count),), buffer_bytes=spec.max_position_embeddings**2)
