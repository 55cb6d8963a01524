"""Qwen 2 and 3: a llama with biases or norms on query and key, and windows on the layers after a number of full ones.

Field names and defaults are those of transformers 5.23 (``models/qwen*/configuration_qwen*.py``).
"""

from service.estimator.model.config_reader import Config, flag, integer, layer_kinds, window
from service.estimator.model.families.dense.base import LETTERS, decoder
from service.estimator.model.families.dense.variants import VariantSpec, build_variant

SPEC = VariantSpec
build = build_variant


def qwen2(config: Config) -> VariantSpec:
    """Return a qwen2: biases on query, key and value."""
    return decoder(config, {}, attention_bias=True, attention_output_bias=False, mlp_bias=False, **_windows(config))


def qwen3(config: Config) -> VariantSpec:
    """Return a qwen3: norms on query and key, a head dimension of its own."""
    return decoder(
        config,
        {"head_dim": 128},
        mlp_bias=False,
        query_key_norm=True,
        query_key_norm_style="rms",
        norms_before_value=True,
        **_windows(config),
    )


def _windows(config: Config) -> dict[str, object]:
    """Return the switches of windows: none unless ``use_sliding_window``; then the layers from ``max_window_layers`` on."""
    size = window(config, 4096) if flag(config, "use_sliding_window", default=False) else None
    layers, full = integer(config, "num_hidden_layers"), _full_layers(config)
    kinds = "".join("s" if size is not None and index >= full else "f" for index in range(layers))
    kinds = layer_kinds(config, kinds, LETTERS)
    return {"sliding_window": size, "layer_kinds": kinds, "mask_kinds": "fs" if "s" in kinds else "f"}


def _full_layers(config: Config) -> int:
    return 0 if config.get("max_window_layers") == 0 else integer(config, "max_window_layers", 28)
