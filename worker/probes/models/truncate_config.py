"""A transformers config cut to some of its layers, whatever words it says them in."""

from collections.abc import Sequence

from transformers import PreTrainedConfig

from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal
from service.probing.stack import Stack

_ENCODER_DEPTHS = ("encoder_layers", "num_layers")
_DECODER_DEPTHS = ("decoder_layers", "num_decoder_layers")
_PER_LAYER = ("layer_types", "layers_block_type", "mlp_layer_types", "no_rope_layers", "attention_layers")
"""Lists that have one entry for each layer."""
_PLACES = ("moe_layers", "mlp_only_layers", "attn_layer_indices")
"""Lists of the places of some layers."""
_PERIODS = (("attn_layer_period", "attn_layer_offset"), ("expert_layer_period", "expert_layer_offset"))
"""Pairs of words that say which layers are of a kind: every so many, beginning at an offset."""


def cut_to(config: PreTrainedConfig, stack: Stack, layers: Sequence[int]) -> None:
    """Leave only these ``layers`` of the text model in ``config``; raises Refusal where its words cannot say them."""
    if tuple(layers) == stack.layers:
        return
    text = config.get_text_config()
    if stack.num_encoder_layers:
        _set_first(text, _ENCODER_DEPTHS, len(stack.encoder(layers)))
        _set_first(text, _DECODER_DEPTHS, len(stack.decoder(layers)))
        return
    text.num_hidden_layers = len(layers)
    for change in (_cut_lists, _cut_places, _cut_dense, _cut_periods):
        change(text, layers)


def _set_first(config: PreTrainedConfig, names: Sequence[str], depth: int) -> None:
    name = next((name for name in names if hasattr(config, name)), None)
    if name is None:
        message = f"the config has none of {', '.join(names)}; a probe must know how deep the model is"
        raise Refusal(FailureKind.UNSUPPORTED, message)
    setattr(config, name, depth)


def _cut_lists(config: PreTrainedConfig, layers: Sequence[int]) -> None:
    for name in _PER_LAYER:
        if name in vars(config) and isinstance(listed := getattr(config, name), list):
            setattr(config, name, [listed[layer] for layer in layers])
    if "attention_types" in vars(config):  # GPT-Neo's lists are made from this one when the config is copied
        config.attention_types = [[[kind], 1] for kind in config.attention_layers]


def _cut_places(config: PreTrainedConfig, layers: Sequence[int]) -> None:
    for name in _PLACES:
        if isinstance(places := vars(config).get(name), list):
            setattr(config, name, [new for new, layer in enumerate(layers) if layer in places])


def _cut_dense(config: PreTrainedConfig, layers: Sequence[int]) -> None:
    """Keep how many of the first layers are dense (DeepSeek, GLM)."""
    if isinstance(dense := vars(config).get("first_k_dense_replace"), int):
        config.first_k_dense_replace = sum(layer < dense for layer in layers)


def _cut_periods(config: PreTrainedConfig, layers: Sequence[int]) -> None:
    """Shift the offsets of periods to where neighbouring layers begin (Jamba)."""
    for period_name, offset_name in _PERIODS:
        if period_name not in vars(config):
            continue
        period, offset = getattr(config, period_name), getattr(config, offset_name)
        if list(layers) != list(range(layers[0], layers[-1] + 1)):
            message = f"{period_name} {period} cannot say layers {list(layers)}: they must be neighbours"
            raise Refusal(FailureKind.UNSUPPORTED, message)
        setattr(config, offset_name, (offset - layers[0]) % period)
