"""GLM-4: fused gate and up projections, partial interleaved rotary positions.

Half of each head is rotated; glm4 normalises around each sublayer. Field names and defaults are
those of transformers 5.23 (``models/glm*/configuration_glm*.py``).
"""

from service.estimator.model.config_reader import Config, read_flag, read_integer, read_rotary_dim
from service.estimator.model.families.dense.base import read_decoder
from service.estimator.model.families.dense.variants import VariantSpec, build_variant

SPEC = VariantSpec
build = build_variant

_DEFAULTS = {
    "vocab_size": 151552,
    "hidden_size": 4096,
    "intermediate_size": 13696,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "max_position_embeddings": 131072,
}


def glm(config: Config) -> VariantSpec:
    """Return a glm."""
    return _read_glm(config, norms="before")


def glm4(config: Config) -> VariantSpec:
    """Return a glm4: each sublayer is normalised before and after."""
    return _read_glm(config, norms="around")


def _read_glm(config: Config, *, norms: str) -> VariantSpec:
    return read_decoder(
        config,
        _DEFAULTS,
        norms=norms,
        attention_bias=read_flag(config, "attention_bias", default=True),
        attention_output_bias=False,
        mlp_bias=False,
        rotation="interleaved",
        rotary_dim=read_rotary_dim(config, read_integer(config, "head_dim", 128), 0.5),
        feed_forward_names="gate_up_proj down_proj",
    )
