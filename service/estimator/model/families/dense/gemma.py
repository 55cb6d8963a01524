"""Gemma 1 to 3: fp32 norms with ``1 + weight``, scaled embeddings; later norms around each half and alternating windows.

Field names and defaults are those of transformers 5.23 (``models/gemma*/configuration_gemma*.py``).
"""

from collections.abc import Mapping

from service.estimator.model.config_reader import Config, integer, layer_kinds, refuse, window, word
from service.estimator.model.families.dense.base import LETTERS, decoder
from service.estimator.model.families.dense.variants import VariantSpec, build_variant
from service.estimator.values.errors import InvalidConfigError

SPEC = VariantSpec
build = build_variant

_GEMMA = {
    "vocab_size": 256000,
    "hidden_size": 3072,
    "intermediate_size": 24576,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "head_dim": 256,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
    "hidden_act": "gelu_pytorch_tanh",
}
_GEMMA2 = _GEMMA | {
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
}
_GEMMA3 = _GEMMA2 | {"vocab_size": 262208, "max_position_embeddings": 131072}
_WIDEST_STRETCH = 4096
_COMMON = {
    "norm": "rms_plus_one",
    "mlp_bias": False,
    "scales_embedding": "inside",
}


def gemma(config: Config) -> VariantSpec:
    """Return a gemma; its ``gelu`` means the tanh approximation."""
    refuse(config, "use_bidirectional_attention", modelled="causal attention")
    name = word(config, "hidden_act", "gelu_pytorch_tanh")
    return decoder(config, _GEMMA, **_COMMON, activation="gelu_pytorch_tanh" if name == "gelu" else name)


def gemma2(config: Config) -> VariantSpec:
    """Return a gemma 2: every other layer slides, scores and logits are capped."""
    return decoder(config, _GEMMA2, **_alternating(config, _GEMMA2, pattern=2, cap=30.0, score_cap=50.0))


def gemma3_text(config: Config) -> VariantSpec:
    """Return a gemma 3: five layers slide and one does not, each kind with rotary tables of its own."""
    pattern = integer(config, "sliding_window_pattern", 6)
    switches = _alternating(config, _GEMMA3, pattern=pattern, cap=None, score_cap=None)
    kinds = str(switches["layer_kinds"])
    return decoder(
        config,
        _GEMMA3,
        **switches,
        query_key_norm_style="rms_plus_one",
        num_rotary_tables=2 * len(set(kinds)),
        rotary_stretch=_linear_factor(config),
    )


def _linear_factor(config: Config) -> int:
    """Return the factor by which positions of full attention are scaled; releases from 5 on name it by kind of layer."""
    by_kind = config.get("rope_parameters")
    scaling = by_kind.get("full_attention") if isinstance(by_kind, Mapping) else config.get("rope_scaling")
    if not isinstance(scaling, Mapping) or scaling.get("rope_type", scaling.get("type")) != "linear":
        return 1
    factor = scaling.get("factor", 1.0)
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 1 <= factor <= _WIDEST_STRETCH:
        message = f"linear scaling by {factor!r}; the factor is a number from 1 to {_WIDEST_STRETCH}"
        raise InvalidConfigError(message, field="rope_scaling")
    return round(factor)


def _alternating(
    config: Config, defaults: Mapping[str, object], *, pattern: int, cap: float | None, score_cap: float | None
) -> dict[str, object]:
    """Return the switches of layers of two kinds: each ``pattern``-th one reads everything."""
    refuse(config, "use_bidirectional_attention", modelled="causal attention")
    layers = integer({**defaults, **config}, "num_hidden_layers")
    kinds = "".join("f" if index % pattern == 0 else "s" for index in range(1, layers + 1))
    return _COMMON | {
        "norms": "around",
        "activation": word(config, "hidden_activation", "gelu_pytorch_tanh"),
        "sliding_window": window(config, 4096),
        "layer_kinds": layer_kinds(config, kinds, LETTERS),
        "mask_kinds": "fs",
        "softcap": config.get("attn_logit_softcapping", score_cap) is not None,
        "logits_steps": 3 if config.get("final_logit_softcapping", cap) is not None else 0,
    }
