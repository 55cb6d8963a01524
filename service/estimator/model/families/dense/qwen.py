"""Qwen 2 and 3: llamas with query/key biases or norms.

Layers after a number of full ones may have windows. Field names and defaults are those of
transformers 5.23 (``models/qwen*/configuration_qwen*.py``).
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


def qwen2(config: Config) -> VariantSpec:
    """Return a qwen2: biases on query, key and value."""
    return read_decoder(
        config,
        {},
        attention_bias=True,
        attention_output_bias=False,
        mlp_bias=False,
        **_read_windows(config),
    )


def qwen3(config: Config) -> VariantSpec:
    """Return a qwen3.

    It has norms on query and key, and a head dimension of its own.
    """
    return read_decoder(
        config,
        {"head_dim": 128},
        mlp_bias=False,
        query_key_norm=True,
        query_key_norm_style="rms",
        norms_before_value=True,
        **_read_windows(config),
    )


def _read_windows(config: Config) -> dict[str, object]:
    """Return the switches of sliding windows.

    There are none unless ``use_sliding_window``; then the layers from ``max_window_layers`` on have
    one.
    """
    size = (
        read_sliding_window(config, 4096)
        if read_flag(config, "use_sliding_window", default=False)
        else None
    )
    layers, full = read_integer(config, "num_hidden_layers"), _count_full_layers(config)
    kinds = "".join("s" if size is not None and index >= full else "f" for index in range(layers))
    kinds = read_layer_kinds(config, kinds, LETTERS)
    return {
        "sliding_window": size,
        "layer_kinds": kinds,
        "mask_kinds": "fs" if "s" in kinds else "f",
    }


def _count_full_layers(config: Config) -> int:
    return (
        0 if config.get("max_window_layers") == 0 else read_integer(config, "max_window_layers", 28)
    )
