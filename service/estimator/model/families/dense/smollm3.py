"""SmolLM 3: a llama in which each fourth layer has no positions.

Field names and defaults are those of transformers 5.23
(``models/smollm3/configuration_smollm3.py``).
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
from service.estimator.values.errors import InvalidConfigError

SPEC = VariantSpec
build = build_variant

_DEFAULTS = {
    "vocab_size": 128256,
    "hidden_size": 2048,
    "intermediate_size": 11008,
    "num_hidden_layers": 36,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": True,
}


def smollm3(config: Config) -> VariantSpec:
    """Return a SmolLM 3.

    With windows, the layers without positions have them.
    """
    size = (
        read_sliding_window(config)
        if read_flag(config, "use_sliding_window", default=False)
        else None
    )
    kinds = _read_kinds(config, size)
    masks = "fs" if {"s", "w"} & set(kinds) else "f"
    if (
        "num_key_value_heads" in config and config["num_key_value_heads"] is None
    ):  # as many as heads, not the default's four
        config = {
            **config,
            "num_key_value_heads": read_integer({**_DEFAULTS, **config}, "num_attention_heads"),
        }
    return read_decoder(config, _DEFAULTS, sliding_window=size, layer_kinds=kinds, mask_kinds=masks)


def _read_kinds(config: Config, size: int | None) -> str:
    """Return the letter of each layer's kind.

    ``no_rope_layers`` has a 1 for layers with positions.
    """
    layers = read_integer(config, "num_hidden_layers", 36)
    interval = read_integer(config, "no_rope_layer_interval", 4)
    listed = config.get("no_rope_layers")
    rotary = (
        [int(index % interval != 0) for index in range(1, layers + 1)] if listed is None else listed
    )
    if not isinstance(rotary, list) or any(value not in (0, 1) for value in rotary):
        message = f"config field 'no_rope_layers' is {rotary!r}; it must be a list of 0 and 1"
        raise InvalidConfigError(message, field="no_rope_layers")
    default = "".join("f" if value or size is None else "s" for value in rotary)
    slides = read_layer_kinds(config, default, LETTERS)
    if len(slides) != len(rotary):
        message = f"layer_types names {len(slides)} layers, no_rope_layers {len(rotary)}"
        raise InvalidConfigError(message, field="layer_types")
    letters = {("f", 1): "f", ("s", 1): "s", ("f", 0): "n", ("s", 0): "w"}
    return "".join(letters[kind, value] for kind, value in zip(slides, rotary, strict=True))
