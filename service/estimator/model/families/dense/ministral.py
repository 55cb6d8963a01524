"""Ministral: a mistral that may mix windowed and full layers.

Field names and defaults are those of transformers 5.23
(``models/ministral/configuration_ministral.py``).
"""

from service.estimator.model.config_reader import (
    Config,
    read_integer,
    read_layer_kinds,
    read_sliding_window,
)
from service.estimator.model.families.dense.base import LETTERS, read_decoder
from service.estimator.model.families.dense.variants import VariantSpec, build_variant

SPEC = VariantSpec
build = build_variant

_DEFAULTS = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
}


def ministral(config: Config) -> VariantSpec:
    """Return a ministral, which needs ``head_dim``.

    Without ``layer_types`` every layer slides when there is a window.
    """
    read_integer(config, "head_dim")
    size = read_sliding_window(config, 4096)
    kind = "s" if size is not None else "f"
    return read_decoder(
        config,
        _DEFAULTS,
        attention_bias=False,
        attention_output_bias=False,
        mlp_bias=False,
        sliding_window=size,
        layer_kinds=read_layer_kinds(
            config, kind * read_integer(config, "num_hidden_layers", 32), LETTERS
        ),
        mask_kinds="fs",
    )
