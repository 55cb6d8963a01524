"""Reader of the config fields that dense decoders share."""

from collections.abc import Mapping
from types import MappingProxyType

from service.estimator.model.config_reader import (
    Config,
    read_flag,
    read_fraction,
    read_head_dim,
    read_integer,
    read_string,
)
from service.estimator.model.families.dense.variants import VariantSpec

LETTERS: Mapping[str, str] = MappingProxyType({"full_attention": "f", "sliding_attention": "s"})
"""Names in ``layer_types`` and their letters in ``layer_kinds``."""


def read_decoder(
    config: Config, defaults: Mapping[str, object] = MappingProxyType({}), **switches: object
) -> VariantSpec:
    """Return a variant read from the usual field names.

    ``defaults`` are the family's own, ``switches`` the fields that it fixes.
    """
    present = {name: value for name, value in config.items() if value is not None}
    filled: Config = {**defaults, **present}
    hidden, heads = read_integer(filled, "hidden_size"), read_integer(filled, "num_attention_heads")
    bias = read_flag(filled, "attention_bias", default=False)
    values: dict[str, object] = {
        "family": read_string(filled, "model_type", ""),
        "vocab_size": read_integer(filled, "vocab_size"),
        "hidden_size": hidden,
        "num_hidden_layers": read_integer(filled, "num_hidden_layers"),
        "num_attention_heads": heads,
        "num_key_value_heads": read_integer(filled, "num_key_value_heads", heads),
        "head_dim": read_head_dim(filled, hidden, heads),
        "intermediate_size": read_integer(filled, "intermediate_size"),
        "activation": read_string(filled, "hidden_act", "silu"),
        "tie_word_embeddings": read_flag(filled, "tie_word_embeddings", default=False),
        "max_position_embeddings": read_integer(filled, "max_position_embeddings", 2048),
        "attention_dropout": read_fraction(filled, "attention_dropout", 0.0),
        "attention_bias": bias,
        "attention_output_bias": bias,
        "mlp_bias": read_flag(filled, "mlp_bias", default=False),
    }
    return VariantSpec(**(values | switches))  # type: ignore[arg-type]  # checked field by field above


def make_uniform_windows(sliding_window: int | None, layers: int) -> dict[str, object]:
    """Return the switches of a family with the same window everywhere.

    Every layer slides when there is a window.
    """
    kind = "s" if sliding_window is not None else "f"
    return {"sliding_window": sliding_window, "layer_kinds": kind * layers, "mask_kinds": kind}
