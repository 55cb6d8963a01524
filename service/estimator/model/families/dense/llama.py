"""Llama and Mistral, which differ by a sliding window.

Field names and defaults are those of transformers 5.23 (``models/*/configuration_*.py``).
"""

from service.estimator.model.config_reader import (
    Config,
    read_flag,
    read_fraction,
    read_head_dim,
    read_integer,
    read_sliding_window,
    read_string,
)
from service.estimator.model.spec import DecoderSpec


def _read_base(
    config: Config, *, default_kv_heads: int | None = None, **switches: object
) -> DecoderSpec:
    hidden, heads = read_integer(config, "hidden_size"), read_integer(config, "num_attention_heads")
    values: dict[str, object] = {
        "family": read_string(config, "model_type", ""),
        "vocab_size": read_integer(config, "vocab_size"),
        "hidden_size": hidden,
        "num_hidden_layers": read_integer(config, "num_hidden_layers"),
        "num_attention_heads": heads,
        "num_key_value_heads": read_integer(
            config, "num_key_value_heads", default_kv_heads or heads
        ),
        "head_dim": read_head_dim(config, hidden, heads),
        "intermediate_size": read_integer(config, "intermediate_size"),
        "activation": read_string(config, "hidden_act", "silu"),
        "tie_word_embeddings": read_flag(config, "tie_word_embeddings", default=False),
        "max_position_embeddings": read_integer(config, "max_position_embeddings", 2048),
        "attention_dropout": read_fraction(config, "attention_dropout", 0.0),
    }
    return DecoderSpec(**(values | switches))  # type: ignore[arg-type]  # checked field by field above


def llama(config: Config) -> DecoderSpec:
    """Return a llama: biases only where the config says so."""
    bias = read_flag(config, "attention_bias", default=False)
    return _read_base(
        config,
        attention_bias=bias,
        attention_output_bias=bias,
        mlp_bias=read_flag(config, "mlp_bias", default=False),
    )


def mistral(config: Config) -> DecoderSpec:
    """Return a mistral: every layer slides when a window is given."""
    return _read_base(config, default_kv_heads=8, sliding_window=read_sliding_window(config, 4096))
