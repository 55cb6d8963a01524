"""StarCoder 2: layer norms, biases and a sliding window.

It has a plain feed-forward layer, dropout, and a window on every layer. Field names and defaults
are those of transformers 5.23 (``models/starcoder2/configuration_starcoder2.py``).
"""

from service.estimator.model.config_reader import (
    Config,
    read_flag,
    read_fraction,
    read_integer,
    read_sliding_window,
)
from service.estimator.model.families.dense.base import make_uniform_windows, read_decoder
from service.estimator.model.families.dense.variants import VariantSpec, build_variant

SPEC = VariantSpec
build = build_variant

_DEFAULTS = {
    "vocab_size": 49152,
    "hidden_size": 3072,
    "intermediate_size": 12288,
    "num_hidden_layers": 30,
    "num_attention_heads": 24,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "hidden_act": "gelu_pytorch_tanh",
    "tie_word_embeddings": True,
}


def starcoder2(config: Config) -> VariantSpec:
    """Return a starcoder2.

    Dropout sits at the end of attention and of the feed-forward layer.
    """
    bias = read_flag(config, "use_bias", default=True)
    return read_decoder(
        config,
        _DEFAULTS,
        norm="layer",
        norm_bias=True,
        gated=False,
        attention_bias=bias,
        attention_output_bias=bias,
        mlp_bias=bias,
        feed_forward_names="c_fc c_proj",
        residual_dropout=read_fraction(config, "residual_dropout", 0.0),
        embedding_dropout=read_fraction(config, "embedding_dropout", 0.0),
        dropout_inside=True,
        **make_uniform_windows(
            read_sliding_window(config), read_integer(config, "num_hidden_layers", 30)
        ),
    )
