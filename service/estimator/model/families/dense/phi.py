"""Phi and Phi-3: parallel sublayers, or fused projections.

Phi has biases; Phi-3 has fused projections and a sliding window. Field names and defaults are those
of transformers 5.23 (``models/phi*/configuration_phi*.py``).
"""

from service.estimator.model.config_reader import (
    Config,
    read_flag,
    read_fraction,
    read_head_dim,
    read_integer,
    read_rotary_dim,
    read_sliding_window,
)
from service.estimator.model.families.dense.base import make_uniform_windows, read_decoder
from service.estimator.model.families.dense.variants import VariantSpec, build_variant

SPEC = VariantSpec
build = build_variant

_PHI = {
    "vocab_size": 51200,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 24,
    "num_attention_heads": 32,
    "hidden_act": "gelu_new",
}
_PHI3 = {
    "vocab_size": 32064,
    "hidden_size": 3072,
    "intermediate_size": 8192,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 4096,
}


def phi(config: Config) -> VariantSpec:
    """Return a phi.

    One layer norm serves both sublayers; biases are everywhere, on the head too.
    """
    hidden, heads = (
        read_integer(config, "hidden_size", 2048),
        read_integer(config, "num_attention_heads", 32),
    )
    dim = read_head_dim(config, hidden, heads)
    return read_decoder(
        config,
        _PHI,
        norm="layer",
        norm_bias=True,
        parallel="last",
        gated=False,
        attention_bias=True,
        attention_output_bias=True,
        mlp_bias=True,
        head_bias=True,
        rotation="outer",
        rotary_dim=read_rotary_dim(config, dim, 0.5),
        query_key_norm_style="layer" if read_flag(config, "qk_layernorm", default=False) else "",
        projection_names="q_proj k_proj v_proj dense",
        feed_forward_names="fc1 fc2",
        residual_dropout=read_fraction(config, "resid_pdrop", 0.0),
        embedding_dropout=read_fraction(config, "embd_pdrop", 0.0),
    )


def phi3(config: Config) -> VariantSpec:
    """Return a phi-3.

    Query, key and value are slices of one projection, gate and up halves of another.
    """
    hidden, heads = (
        read_integer(config, "hidden_size", 3072),
        read_integer(config, "num_attention_heads", 32),
    )
    dim = read_head_dim(config, hidden, heads)
    return read_decoder(
        config,
        _PHI3,
        attention_bias=False,
        attention_output_bias=False,
        mlp_bias=False,
        rotation="inline",
        rotary_dim=read_rotary_dim(config, dim, 1.0),
        projection_names="qkv_proj o_proj",
        feed_forward_names="gate_up_proj down_proj",
        residual_dropout=read_fraction(config, "resid_pdrop", 0.0),
        **make_uniform_windows(
            read_sliding_window(config), read_integer(config, "num_hidden_layers", 32)
        ),
    )
