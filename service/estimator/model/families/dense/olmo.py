"""OLMo 1 to 3, with rotary tables in fp32.

OLMo has norms without weights before each sublayer, OLMo 2 and 3 norms after it. Field names and
defaults are those of transformers 5.23 (``models/olmo*/configuration_olmo*.py``).
"""

from service.estimator.model.config_reader import (
    Config,
    read_integer,
    read_layer_kinds,
    read_sliding_window,
)
from service.estimator.model.families.dense.base import LETTERS, read_decoder
from service.estimator.model.families.dense.variants import VariantSpec, build_variant

SPEC = VariantSpec
build = build_variant

_DEFAULTS = {
    "vocab_size": 50304,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
}


def olmo(config: Config) -> VariantSpec:
    """Return an OLMo."""
    clips = config.get("clip_qkv") is not None
    return read_decoder(
        config,
        _DEFAULTS,
        norm="bare",
        mlp_bias=False,
        rotation="downcast",
        fp32_tables=True,
        clips=clips,
    )


def olmo2(config: Config) -> VariantSpec:
    """Return an OLMo 2: norms over the whole query and key."""
    return _read_post_norm(config)


def olmo3(config: Config) -> VariantSpec:
    """Return an OLMo 3.

    It is an OLMo 2 with windows, and tables for each kind of layer; by default each fourth layer is
    full.
    """
    layers = read_integer(config, "num_hidden_layers", 32)
    hybrid = "".join("f" if index % 4 == 0 else "s" for index in range(1, layers + 1))
    return _read_post_norm(
        config,
        sliding_window=read_sliding_window(config, 4096),
        layer_kinds=read_layer_kinds(config, hybrid, LETTERS),
        mask_kinds="fs",
        num_rotary_tables=4,
    )


def _read_post_norm(config: Config, **switches: object) -> VariantSpec:
    return read_decoder(
        config,
        _DEFAULTS,
        norm="rms_all_fp32",
        norms="after",
        mlp_bias=False,
        rotation="downcast",
        fp32_tables=True,
        query_key_norm_style="rms_all_fp32",
        norms_whole_query=True,
        norms_before_value=True,
        **switches,
    )
