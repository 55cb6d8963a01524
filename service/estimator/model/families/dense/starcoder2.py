"""StarCoder 2: layer norms and biases, a plain feed-forward layer, dropout, a sliding window on every layer.

Field names and defaults are those of transformers 5.23 (``models/starcoder2/configuration_starcoder2.py``).
"""

from service.estimator.model.config_reader import Config, flag, integer, number, window
from service.estimator.model.families.dense.base import decoder, uniform
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
    """Return a starcoder2: dropout sits at the end of attention and of the feed-forward layer."""
    bias = flag(config, "use_bias", default=True)
    return decoder(
        config,
        _DEFAULTS,
        norm="layer",
        norm_bias=True,
        gated=False,
        attention_bias=bias,
        attention_output_bias=bias,
        mlp_bias=bias,
        feed_forward_names="c_fc c_proj",
        residual_dropout=number(config, "residual_dropout", 0.0),
        embedding_dropout=number(config, "embedding_dropout", 0.0),
        dropout_inside=True,
        **uniform(window(config), integer(config, "num_hidden_layers", 30)),
    )
