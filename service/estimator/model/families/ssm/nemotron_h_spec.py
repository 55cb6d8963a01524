"""Numbers of a Nemotron-H model, and their reader."""

from dataclasses import dataclass
from typing import Any

from service.estimator.model.config_reader import (
    Config,
    apply_aliases,
    read_flag,
    read_fraction,
    read_integer,
    read_layer_kinds,
    read_string,
)
from service.estimator.model.families.ssm.bamba_parts import MixerSpec
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidConfigError, NotModelledError

MIXER, ATTENTION, FEED_FORWARD, EXPERTS = "M", "*", "-", "E"
"""Letters of ``hybrid_override_pattern``."""
_LETTERS = {
    "linear_attention": MIXER,
    "mamba": MIXER,
    "full_attention": ATTENTION,
    "attention": ATTENTION,
    "mlp": FEED_FORWARD,
    "moe": EXPERTS,
}
_DEFAULT_KINDS = MIXER + EXPERTS + ATTENTION + FEED_FORWARD
_RENAMED = {
    "n_groups": "mamba_n_groups",
    "conv_kernel": "mamba_d_conv",
    "use_conv_bias": "mamba_conv_bias",
    "chunk_size": "mamba_chunk_size",
}
"""Fields by the older names that a config may have, which then win
(configuration_nemotron_h.py, ``__post_init__``).
"""

_STATE_DTYPES = {
    "auto": "",
    "float32": DType.FP32.value,
    "bfloat16": DType.BF16.value,
    "float16": DType.FP16.value,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NemotronHSpec(MixerSpec):
    """Numbers of a Nemotron-H model.

    ``layer_kinds`` has a letter for each layer: M for a mixer, * for attention, - for a
    feed-forward and E for experts. ``latent_size`` 0 means that experts read the hidden states.
    """

    layer_kinds: str
    mixer_activation: str
    expert_intermediate_size: int = 0
    shared_intermediate_size: int = 0
    latent_size: int = 0
    num_expert_groups: int = 1
    num_chosen_groups: int = 1
    renormalised: bool = True
    predictor_kinds: str = ""
    """Layers of one step of multi-token prediction, of the kinds that the model has."""
    cached_state: str = DType.FP32.value
    """Number format of recurrent states in engines (``mamba_ssm_cache_dtype``); empty for that of
    the weights.
    """


def nemotron_h(config: Config) -> NemotronHSpec:
    """Return a Nemotron-H, whose layers are one sublayer each."""
    config = {
        **config,
        **{new: config[old] for new, old in _RENAMED.items() if config.get(old) is not None},
    }
    kinds, heads = _read_kinds(config), read_integer(config, "num_attention_heads", 32)
    experts = EXPERTS in kinds
    return NemotronHSpec(
        family=read_string(config, "model_type", "nemotron_h"),
        vocab_size=read_integer(config, "vocab_size", 131072),
        hidden_size=read_integer(config, "hidden_size", 4096),
        num_hidden_layers=len(kinds),
        num_attention_heads=heads,
        num_key_value_heads=heads
        if "num_key_value_heads" in config and config["num_key_value_heads"] is None
        else read_integer(config, "num_key_value_heads", 8),
        head_dim=read_integer(config, "head_dim", 128),
        intermediate_size=read_integer(config, "intermediate_size", 21504),
        activation=read_string(config, "mlp_hidden_act", "relu2"),
        gated=False,
        rotary=False,
        tie_word_embeddings=read_flag(config, "tie_word_embeddings", default=False),
        mlp_bias=read_flag(config, "mlp_bias", default=False),
        max_position_embeddings=read_integer(config, "max_position_embeddings", 4096),
        attention_dropout=read_fraction(config, "attention_dropout", 0.0),
        layer_kinds=kinds,
        mixer_heads=read_integer(config, "mamba_num_heads", 128),
        mixer_head_dim=read_integer(config, "mamba_head_dim", 64),
        state_size=read_integer(config, "ssm_state_size", 128),
        num_groups=read_integer(config, "n_groups", 8),
        kernel_size=read_integer(config, "conv_kernel", 4),
        chunk_size=read_integer(config, "chunk_size", 128),
        mixer_activation=read_string(config, "mamba_hidden_act", "silu"),
        convolution_bias=read_flag(config, "use_conv_bias", default=True),
        projection_bias=read_flag(config, "use_bias", default=False),
        predictor_kinds=_read_predictor_kinds(config, kinds),
        cached_state=_read_state_dtype(config),
        **(_read_experts(config) if experts else {}),
    )


def _read_experts(config: Config) -> dict[str, Any]:
    """Return the numbers of layers with experts."""
    config = apply_aliases(config, n_routed_experts="num_local_experts")
    if config.get("n_shared_experts") not in {None, 1}:
        # transformers makes one of them, and vLLM one as wide as all together.
        what = f"n_shared_experts {config['n_shared_experts']!r}"
        raise NotModelledError(what, field="n_shared_experts", modelled=["n_shared_experts: 1"])
    latent = config.get("moe_latent_size") is not None
    return {
        "num_experts": read_integer(config, "n_routed_experts", 8),
        "num_experts_per_token": read_integer(config, "num_experts_per_tok", 2),
        "expert_intermediate_size": read_integer(config, "moe_intermediate_size", 7688),
        "shared_intermediate_size": read_integer(
            config, "moe_shared_expert_intermediate_size", 7688
        ),
        "latent_size": read_integer(config, "moe_latent_size") if latent else 0,
        "num_expert_groups": read_integer(config, "n_group", 1),
        "num_chosen_groups": read_integer(config, "topk_group", 1),
        "renormalised": read_flag(config, "norm_topk_prob", default=True),
    }


def _read_predictor_kinds(config: Config, kinds: str) -> str:
    """Return the letters of a predictor's layers, if there are any."""
    if not config.get("num_nextn_predict_layers"):
        return ""
    listed = config.get("mtp_layers_block_type")
    default = str(config.get("mtp_hybrid_override_pattern") or ATTENTION + EXPERTS)
    letters = read_layer_kinds({"layer_types": listed}, default, _LETTERS)
    if set(letters) - set(kinds):
        what = f"layers {letters} that predict, beside {kinds}"
        raise NotModelledError(
            what, field="mtp_layers_block_type", modelled=["layers of the model"]
        )
    return letters


def _read_state_dtype(config: Config) -> str:
    """Return the number format of cached states, in our own words."""
    word = read_string(config, "mamba_ssm_cache_dtype", "float32")
    if word not in _STATE_DTYPES:
        message = f"mamba_ssm_cache_dtype is {word!r}; it must be one of {', '.join(_STATE_DTYPES)}"
        raise InvalidConfigError(message, field="mamba_ssm_cache_dtype")
    return _STATE_DTYPES[word]


def _read_kinds(config: Config) -> str:
    """Return a letter for each layer.

    A list of them comes before the pattern, and both before ``num_hidden_layers``.
    """
    listed = config.get("layers_block_type") or config.get("layer_types")
    if listed is not None:
        return read_layer_kinds({"layer_types": listed}, _DEFAULT_KINDS, _LETTERS)
    pattern = config.get("hybrid_override_pattern", _DEFAULT_KINDS)
    if not isinstance(pattern, str) or not pattern or set(pattern) - set(_LETTERS.values()):
        message = (
            f"hybrid_override_pattern is {pattern!r}; it must have a letter for each layer, of "
            f"{MIXER}, {ATTENTION}, {FEED_FORWARD} and {EXPERTS}"
        )
        raise InvalidConfigError(message, field="hybrid_override_pattern")
    return pattern
