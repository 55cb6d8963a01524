"""What the configs of dense decoders have in common, read once for all of them."""

from collections.abc import Mapping
from types import MappingProxyType

from service.estimator.model.config_reader import Config, flag, head_dim, integer, number, word
from service.estimator.model.families.dense.variants import VariantSpec

LETTERS: Mapping[str, str] = MappingProxyType({"full_attention": "f", "sliding_attention": "s"})
"""Words of ``layer_types`` and their letters in ``layer_kinds``."""


def decoder(config: Config, defaults: Mapping[str, object] = MappingProxyType({}), **switches: object) -> VariantSpec:
    """Return a variant read from the usual field names; ``defaults`` are the family's own, ``switches`` what it fixes."""
    known = {name: value for name, value in config.items() if value is not None}
    filled: Config = {**defaults, **known}
    hidden, heads = integer(filled, "hidden_size"), integer(filled, "num_attention_heads")
    bias = flag(filled, "attention_bias", default=False)
    values: dict[str, object] = {
        "family": word(filled, "model_type", ""),
        "vocab_size": integer(filled, "vocab_size"),
        "hidden_size": hidden,
        "num_hidden_layers": integer(filled, "num_hidden_layers"),
        "num_attention_heads": heads,
        "num_key_value_heads": integer(filled, "num_key_value_heads", heads),
        "head_dim": head_dim(filled, hidden, heads),
        "intermediate_size": integer(filled, "intermediate_size"),
        "activation": word(filled, "hidden_act", "silu"),
        "tie_word_embeddings": flag(filled, "tie_word_embeddings", default=False),
        "max_position_embeddings": integer(filled, "max_position_embeddings", 2048),
        "attention_dropout": number(filled, "attention_dropout", 0.0),
        "attention_bias": bias,
        "attention_output_bias": bias,
        "mlp_bias": flag(filled, "mlp_bias", default=False),
    }
    return VariantSpec(**(values | switches))  # type: ignore[arg-type]  # checked field by field above


def uniform(sliding_window: int | None, layers: int) -> dict[str, object]:
    """Return the switches of a family of which every layer slides when there is a window."""
    kind = "s" if sliding_window is not None else "f"
    return {"sliding_window": sliding_window, "layer_kinds": kind * layers, "mask_kinds": kind}
