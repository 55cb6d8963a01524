"""Command R: parallel sublayers behind one centred norm.

Rotation is in fp32; cohere2 alternates windows and full attention. Field names and defaults are
those of transformers 5.23 (``models/cohere*/configuration_cohere*.py``).
"""

from service.estimator.model.config_reader import (
    Config,
    read_flag,
    read_integer,
    read_layer_kinds,
    read_sliding_window,
)
from service.estimator.model.families.dense.base import LETTERS, read_decoder
from service.estimator.model.families.dense.variants import VariantSpec, build_variant

SPEC = VariantSpec
build = build_variant

_DEFAULTS = {
    "vocab_size": 256000,
    "hidden_size": 8192,
    "intermediate_size": 22528,
    "num_hidden_layers": 40,
    "num_attention_heads": 64,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}
_LETTERS = {**LETTERS, "full_attention": "n"}
_COMMON = {
    "norm": "centred",
    "parallel": "first",
    "mlp_bias": False,
    "rotation": "upcast",
    "logits_steps": 1,
}


def cohere(config: Config) -> VariantSpec:
    """Return a cohere."""
    normalised = read_flag(config, "use_qk_norm", default=False)
    return read_decoder(
        config, _DEFAULTS, **_COMMON, query_key_norm_style="centred" if normalised else ""
    )


def cohere2(config: Config) -> VariantSpec:
    """Return a cohere2.

    Layers that slide have positions, those that read everything have none.
    """
    layers = read_integer(config, "num_hidden_layers", 40)
    pattern = read_integer(config, "sliding_window_pattern", 4)
    kinds = "".join("n" if index % pattern == 0 else "s" for index in range(1, layers + 1))
    return read_decoder(
        config,
        _DEFAULTS,
        **_COMMON,
        sliding_window=read_sliding_window(config, 4096),
        layer_kinds=read_layer_kinds(config, kinds, _LETTERS),
        mask_kinds="fs",
    )
