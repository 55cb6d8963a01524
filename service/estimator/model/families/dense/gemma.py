"""Gemma 1 to 3: fp32 norms with ``1 + weight``, scaled embeddings.

Later versions have norms around each sublayer and alternating windows. Field names and defaults are
those of transformers 5.23 (``models/gemma*/configuration_gemma*.py``).
"""

from collections.abc import Mapping

from service.estimator.model.config_reader import (
    Config,
    read_integer,
    read_layer_kinds,
    read_sliding_window,
    read_string,
    refuse_field,
)
from service.estimator.model.families.dense.base import LETTERS, read_decoder
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
_SCORE_CAP = 50.0
"""Gemma 2's; gemma 3's attention never reads its ``attn_logit_softcapping``."""
_MAX_LINEAR_FACTOR = 4096
_COMMON = {
    "norm": "rms_plus_one",
    "mlp_bias": False,
    "scales_embedding": "inside",
}


def gemma(config: Config) -> VariantSpec:
    """Return a gemma; its ``gelu`` means the tanh approximation."""
    refuse_field(config, "use_bidirectional_attention", modelled="causal attention")
    name = read_string(config, "hidden_act", "gelu_pytorch_tanh")
    return read_decoder(
        config, _GEMMA, **_COMMON, activation="gelu_pytorch_tanh" if name == "gelu" else name
    )


def gemma2(config: Config) -> VariantSpec:
    """Return a gemma 2.

    Every other layer slides; scores and logits are capped.
    """
    capped = config.get("attn_logit_softcapping", _SCORE_CAP) is not None
    return read_decoder(
        config,
        _GEMMA2,
        **_read_alternating_layers(config, _GEMMA2, pattern=2, cap=30.0),
        softcap=capped,
        only_eager=not capped,
    )


def gemma3_text(config: Config) -> VariantSpec:
    """Return a gemma 3 text model.

    Five layers slide and one does not, each kind with rotary tables of its own.
    """
    pattern = read_integer(config, "sliding_window_pattern", 6)
    switches = _read_alternating_layers(config, _GEMMA3, pattern=pattern, cap=None)
    kinds = str(switches["layer_kinds"])
    return read_decoder(
        config,
        _GEMMA3,
        **switches,
        query_key_norm_style="rms_plus_one",
        num_rotary_tables=2 * len(set(kinds)),
        rotary_stretch=_read_linear_factor(config),
    )


def _read_linear_factor(config: Config) -> int:
    """Return the factor that scales the positions of full attention.

    Releases from 5 on name it by kind of layer.
    """
    by_kind = config.get("rope_parameters")
    scaling = (
        by_kind.get("full_attention")
        if isinstance(by_kind, Mapping)
        else config.get("rope_scaling")
    )
    if (
        not isinstance(scaling, Mapping)
        or scaling.get("rope_type", scaling.get("type")) != "linear"
    ):
        return 1
    factor = scaling.get("factor", 1.0)
    if (
        isinstance(factor, bool)
        or not isinstance(factor, int | float)
        or not 1 <= factor <= _MAX_LINEAR_FACTOR
    ):
        message = (
            f"linear scaling by {factor!r}; the factor is a number from 1 to {_MAX_LINEAR_FACTOR}"
        )
        raise InvalidConfigError(message, field="rope_scaling")
    return round(factor)


def _read_alternating_layers(
    config: Config,
    defaults: Mapping[str, object],
    *,
    pattern: int,
    cap: float | None,
) -> dict[str, object]:
    """Return the switches of alternating layers.

    Each ``pattern``-th layer reads everything.
    """
    refuse_field(config, "use_bidirectional_attention", modelled="causal attention")
    layers = read_integer({**defaults, **config}, "num_hidden_layers")
    kinds = "".join("f" if index % pattern == 0 else "s" for index in range(1, layers + 1))
    return _COMMON | {
        "norms": "around",
        "activation": read_string(config, "hidden_activation", "gelu_pytorch_tanh"),
        "sliding_window": read_sliding_window(config, 4096),
        "layer_kinds": read_layer_kinds(config, kinds, LETTERS),
        "mask_kinds": "fs",
        "logits_steps": 3 if config.get("final_logit_softcapping", cap) is not None else 0,
    }
