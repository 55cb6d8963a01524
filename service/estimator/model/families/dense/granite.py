"""Granite: a llama with constant multipliers.

Embeddings, the sublayers' outputs and logits are multiplied by constants. Field names and defaults
are those of transformers 5.23 (``models/granite/configuration_granite.py``).
"""

from service.estimator.model.config_reader import Config
from service.estimator.model.families.dense.base import read_decoder
from service.estimator.model.families.dense.variants import VariantSpec, build_variant

SPEC = VariantSpec
build = build_variant

_DEFAULTS = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
}


def granite(config: Config) -> VariantSpec:
    """Return a granite.

    The factors' values do not matter; each is an operation.
    """
    return read_decoder(
        config, _DEFAULTS, scales_embedding="outside", scales_residual=True, logits_steps=1
    )
