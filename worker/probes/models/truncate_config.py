"""Truncation of a transformers config to some of its layers.

It knows the field names of all supported families.
"""

from collections.abc import Sequence

from transformers import PreTrainedConfig

from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal
from service.probing.stack import LayerStack

_ENCODER_DEPTHS = ("encoder_layers", "num_layers")
_DECODER_DEPTHS = ("decoder_layers", "num_decoder_layers")
_PER_LAYER_LISTS = (
    "layer_types",
    "layers_block_type",
    "mlp_layer_types",
    "indexer_types",
    "no_rope_layers",
    "attention_layers",
)
"""Lists that have one entry for each layer."""
_POSITION_LISTS = ("moe_layers", "mlp_only_layers", "attn_layer_indices")
"""Lists of the positions of some layers."""
_PERIODS = (
    ("attn_layer_period", "attn_layer_offset"),
    ("expert_layer_period", "expert_layer_offset"),
)
"""Pairs of fields that select layers of a kind: a period, and the offset of the first."""


def truncate_config(config: PreTrainedConfig, stack: LayerStack, layers: Sequence[int]) -> None:
    """Keep only these ``layers`` of the text model in ``config``.

    Raises Refusal where its fields cannot express them.
    """
    if tuple(layers) == stack.layers:
        return
    text = config.get_text_config()
    if stack.num_encoder_layers:
        _set_first(text, _ENCODER_DEPTHS, len(stack.select_encoder_layers(layers)))
        _set_first(text, _DECODER_DEPTHS, len(stack.select_decoder_layers(layers)))
        return
    text.num_hidden_layers = len(layers)
    for change in (_truncate_lists, _truncate_positions, _truncate_dense, _shift_periods):
        change(text, layers)


def _set_first(config: PreTrainedConfig, names: Sequence[str], depth: int) -> None:
    name = next((name for name in names if hasattr(config, name)), None)
    if name is None:
        message = (
            f"the config has none of {', '.join(names)}; a probe must know how deep the model is"
        )
        raise Refusal(FailureKind.UNSUPPORTED, message)
    setattr(config, name, depth)


def _truncate_lists(config: PreTrainedConfig, layers: Sequence[int]) -> None:
    for name in _PER_LAYER_LISTS:
        if name in vars(config) and isinstance(values := getattr(config, name), list):
            setattr(config, name, [values[layer] for layer in layers])
    if "attention_types" in vars(
        config
    ):  # GPT-Neo's lists are made from this one when the config is copied
        config.attention_types = [[[kind], 1] for kind in config.attention_layers]


def _truncate_positions(config: PreTrainedConfig, layers: Sequence[int]) -> None:
    for name in _POSITION_LISTS:
        if isinstance(positions := vars(config).get(name), list):
            setattr(config, name, [new for new, layer in enumerate(layers) if layer in positions])


def _truncate_dense(config: PreTrainedConfig, layers: Sequence[int]) -> None:
    """Update the count of leading dense layers (DeepSeek, GLM)."""
    if isinstance(dense := vars(config).get("first_k_dense_replace"), int):
        config.first_k_dense_replace = sum(layer < dense for layer in layers)


def _shift_periods(config: PreTrainedConfig, layers: Sequence[int]) -> None:
    """Shift the offsets of periods for consecutive layers (Jamba)."""
    for period_name, offset_name in _PERIODS:
        if period_name not in vars(config):
            continue
        period, offset = getattr(config, period_name), getattr(config, offset_name)
        if list(layers) != list(range(layers[0], layers[-1] + 1)):
            message = (
                f"{period_name} {period} cannot say layers {list(layers)}: they must be neighbours"
            )
            raise Refusal(FailureKind.UNSUPPORTED, message)
        setattr(config, offset_name, (offset - layers[0]) % period)
