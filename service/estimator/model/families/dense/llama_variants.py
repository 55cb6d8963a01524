"""Llama variants: Arcee, Seed-OSS and EXAONE 4.

They differ from a llama by a switch or two. Field names and defaults are those of transformers 5.23
(``models/{arcee,seed_oss,exaone4}/configuration_*.py``).
"""

import re

from service.estimator.model.config_reader import (
    Config,
    read_flag,
    read_fraction,
    read_integer,
    read_layer_kinds,
    read_sliding_window,
)
from service.estimator.model.families.dense.base import LETTERS, read_decoder
from service.estimator.model.families.dense.variants import VariantSpec, build_variant

SPEC = VariantSpec
build = build_variant

_ARCEE = {
    "vocab_size": 32000,
    "hidden_size": 2560,
    "intermediate_size": 18432,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "hidden_act": "relu2",
    "max_position_embeddings": 4096,
}
_SEED_OSS = {
    "vocab_size": 155136,
    "hidden_size": 4096,
    "intermediate_size": 27648,
    "num_hidden_layers": 64,
    "num_attention_heads": 80,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "attention_bias": True,
    "attention_dropout": 0.1,
    "max_position_embeddings": 524288,
}
_EXAONE4 = {
    "vocab_size": 102400,
    "hidden_size": 4096,
    "intermediate_size": 16384,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "max_position_embeddings": 2048,
}
_EXAONE4_LETTERS = {"full_attention": "n", "sliding_attention": "s"}
"""A full layer has no positions where other layers have windows."""


def arcee(config: Config) -> VariantSpec:
    """Return an Arcee: a squared ReLU without a gate."""
    return read_decoder(config, _ARCEE, gated=False, feed_forward_names="up_proj down_proj")


def seed_oss(config: Config) -> VariantSpec:
    """Return a Seed-OSS.

    It has biases on query, key and value, and dropout at the end of both sublayers.
    """
    return read_decoder(
        config,
        _SEED_OSS,
        attention_output_bias=read_flag(config, "attention_out_bias", default=False),
        residual_dropout=read_fraction(config, "residual_dropout", 0.1),
        dropout_inside=True,
    )


def _read_period(config: Config) -> int:
    """Return which layer sees all tokens, of as many.

    EXAONE 4 32B says it in letters: LLLG is three local layers and a global one.
    """
    letters = config.get("sliding_window_pattern", 4)
    if isinstance(letters, str) and re.fullmatch("L*G", letters):
        return len(letters)
    return read_integer(config, "sliding_window_pattern", 4)


def exaone4(config: Config) -> VariantSpec:
    """Return an EXAONE 4.

    Norms follow each sublayer and each head; without ``layer_types`` each fourth layer is full.
    """
    size = read_sliding_window(config, 4096)
    layers = read_integer(config, "num_hidden_layers", 32)
    period = _read_period(config)
    letters = LETTERS if size is None else _EXAONE4_LETTERS
    hybrid = "".join("n" if index % period == 0 else "s" for index in range(1, layers + 1))
    kinds = read_layer_kinds(config, "f" * layers if size is None else hybrid, letters)
    return read_decoder(
        config,
        _EXAONE4,
        norms="after",
        attention_bias=False,
        attention_output_bias=False,
        mlp_bias=False,
        query_key_norm_style="rms",
        norms_before_value=False,
        sliding_window=size,
        layer_kinds=kinds,
        mask_kinds="fs" if "s" in kinds else "f",
    )
