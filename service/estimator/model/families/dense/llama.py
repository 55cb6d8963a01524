"""Llama, and mistral, which differs from it by a window.

Field names and defaults are those of transformers 5.23 (``models/*/configuration_*.py``).
"""

from service.estimator.model.config_reader import Config, flag, head_dim, integer, number, window, word
from service.estimator.model.spec import DecoderSpec


def _base(config: Config, *, default_kv_heads: int | None = None, **switches: object) -> DecoderSpec:
    hidden, heads = integer(config, "hidden_size"), integer(config, "num_attention_heads")
    values: dict[str, object] = {
        "family": word(config, "model_type", ""),
        "vocab_size": integer(config, "vocab_size"),
        "hidden_size": hidden,
        "num_hidden_layers": integer(config, "num_hidden_layers"),
        "num_attention_heads": heads,
        "num_key_value_heads": integer(config, "num_key_value_heads", default_kv_heads or heads),
        "head_dim": head_dim(config, hidden, heads),
        "intermediate_size": integer(config, "intermediate_size"),
        "activation": word(config, "hidden_act", "silu"),
        "tie_word_embeddings": flag(config, "tie_word_embeddings", default=False),
        "max_position_embeddings": integer(config, "max_position_embeddings", 2048),
        "attention_dropout": number(config, "attention_dropout", 0.0),
    }
    return DecoderSpec(**(values | switches))  # type: ignore[arg-type]  # checked field by field above


def llama(config: Config) -> DecoderSpec:
    """Return a llama: biases only where the config says so."""
    bias = flag(config, "attention_bias", default=False)
    return _base(config, attention_bias=bias, attention_output_bias=bias, mlp_bias=flag(config, "mlp_bias", default=False))


def mistral(config: Config) -> DecoderSpec:
    """Return a mistral: every layer slides when a window is given."""
    return _base(config, default_kv_heads=8, sliding_window=window(config, 4096))
