"""StableLM: layer norms, partial rotary positions, optional parallel sublayers.

Field names and defaults are those of transformers 5.23
(``models/stablelm/configuration_stablelm.py``).
"""

from service.estimator.model.config_reader import (
    Config,
    read_flag,
    read_fraction,
    read_integer,
    read_rotary_dim,
)
from service.estimator.model.families.dense.base import read_decoder
from service.estimator.model.families.dense.variants import VariantSpec, build_variant

SPEC = VariantSpec
build = build_variant

_DEFAULTS = {
    "vocab_size": 50304,
    "hidden_size": 2560,
    "intermediate_size": 6912,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
}


def stablelm(config: Config) -> VariantSpec:
    """Return a stablelm."""
    hidden, heads = (
        read_integer(config, "hidden_size", 2560),
        read_integer(config, "num_attention_heads", 32),
    )
    return read_decoder(
        {name: value for name, value in config.items() if name != "head_dim"},
        _DEFAULTS,
        norm="layer",
        norm_bias=True,
        keeps_names=True,
        norms_of_heads=read_flag(config, "qk_layernorm", default=False),
        parallel="first" if read_flag(config, "use_parallel_residual", default=False) else "",
        attention_bias=read_flag(config, "use_qkv_bias", default=False),
        attention_output_bias=False,
        mlp_bias=False,
        rotation="outer",
        rotary_dim=read_rotary_dim(config, hidden // heads, 0.25),
        residual_dropout=read_fraction(config, "hidden_dropout", 0.0),
    )
