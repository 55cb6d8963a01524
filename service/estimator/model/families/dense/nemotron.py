"""Nemotron: ``1 + weight`` layer norms and a squared ReLU.

There is no gate, and half of each head has rotary positions. Field names and defaults are those of
transformers 5.23 (``models/nemotron/configuration_nemotron.py``).
"""

from service.estimator.model.config_reader import (
    Config,
    read_head_dim,
    read_integer,
    read_rotary_dim,
)
from service.estimator.model.families.dense.base import read_decoder
from service.estimator.model.families.dense.variants import VariantSpec, build_variant

SPEC = VariantSpec
build = build_variant

_DEFAULTS = {
    "vocab_size": 256000,
    "hidden_size": 6144,
    "intermediate_size": 24576,
    "num_hidden_layers": 32,
    "num_attention_heads": 48,
    "max_position_embeddings": 4096,
    "hidden_act": "relu2",
}


def nemotron(config: Config) -> VariantSpec:
    """Return a nemotron."""
    dim = read_head_dim(
        config,
        read_integer(config, "hidden_size", 6144),
        read_integer(config, "num_attention_heads", 48),
    )
    return read_decoder(
        config,
        _DEFAULTS,
        norm="layer_plus_one",
        norm_bias=True,
        gated=False,
        rotation="joined",
        rotary_dim=read_rotary_dim(config, dim, 0.5),
        feed_forward_names="up_proj down_proj",
    )
