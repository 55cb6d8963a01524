"""OLMo, 2 and 3: norms without weights before, or norms after each half; rotary tables in fp32.

Field names and defaults are those of transformers 5.23 (``models/olmo*/configuration_olmo*.py``).
"""

from service.estimator.model.config_reader import Config, integer, layer_kinds, window
from service.estimator.model.families.dense.base import LETTERS, decoder
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
    return decoder(config, _DEFAULTS, norm="bare", mlp_bias=False, rotation="downcast", fp32_tables=True, clips=clips)


def olmo2(config: Config) -> VariantSpec:
    """Return an OLMo 2: norms over the whole query and key."""
    return _normed_after(config)


def olmo3(config: Config) -> VariantSpec:
    """Return an OLMo 3: an OLMo 2 with windows and tables for each kind of layer; by default each fourth is full."""
    layers = integer(config, "num_hidden_layers", 32)
    hybrid = "".join("f" if index % 4 == 0 else "s" for index in range(1, layers + 1))
    return _normed_after(
        config,
        sliding_window=window(config, 4096),
        layer_kinds=layer_kinds(config, hybrid, LETTERS),
        mask_kinds="fs",
        num_rotary_tables=4,
    )


def _normed_after(config: Config, **switches: object) -> VariantSpec:
    return decoder(
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
