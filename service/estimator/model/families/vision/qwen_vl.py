"""Qwen2-VL and Qwen2.5-VL: a qwen2 with positions on three axes, beside a tower for images of any size.

Field names and defaults are those of transformers 5.23 (``models/qwen2_vl/configuration_qwen2_vl.py``, ``models/qwen2_5_vl``).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.config_reader import Config, flag, integer, word
from service.estimator.model.families.dense.qwen import qwen2
from service.estimator.model.families.dense.variants import VariantSpec, build_variant
from service.estimator.model.modules.layers.vision import KIND, vision_linear
from service.estimator.model.modules.mlp.feedforward import FeedForward, GatedFeedForward
from service.estimator.model.modules.vision.multimodal import ImageReader
from service.estimator.model.modules.vision.qwen_vision import ChunkedAttention, PatchLayer, PatchSight
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import rotary_buffer_bytes
from service.estimator.model.weights.tensors import Norm, Weight
from service.estimator.values.errors import InvalidConfigError

AXES = 3
"""A token has a position in time, in height and in width."""
_TEXT = {
    "vocab_size": 152064,
    "hidden_size": 8192,
    "intermediate_size": 29568,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "max_position_embeddings": 32768,
    "max_window_layers": 80,
}
_WHOLE_LAYERS = [7, 15, 23, 31]


@dataclass(frozen=True, slots=True, kw_only=True)
class QwenVisionSpec(VariantSpec):
    """The numbers of the language model, and those of the tower; ``vision_kinds`` has ``w`` for layers within windows."""

    vision_hidden_size: int
    vision_intermediate_size: int
    vision_heads: int
    vision_kinds: str
    vision_patch_size: int = 14
    vision_temporal_patch_size: int = 2
    vision_channels: int = 3
    vision_merge_size: int = 2
    vision_window_size: int = 0
    vision_activation: str = "quick_gelu"


SPEC = QwenVisionSpec


def qwen2_vl(config: Config) -> QwenVisionSpec:
    """Return a Qwen2-VL: layer norms and a plain feed-forward in the tower, every layer over whole images."""
    vision = _vision(config)
    hidden = integer(vision, "embed_dim", 1280)
    return _spec(
        config,
        "qwen2_vl",
        vision_hidden_size=hidden,
        vision_intermediate_size=hidden * integer(vision, "mlp_ratio", 4),
        vision_kinds="f" * integer(vision, "depth", 32),
        vision_activation=word(vision, "hidden_act", "quick_gelu"),
    )


def qwen2_5_vl(config: Config) -> QwenVisionSpec:
    """Return a Qwen2.5-VL: root-mean-square norms and gates in the tower, and windows in most of its layers."""
    vision = _vision(config)
    depth, whole = integer(vision, "depth", 32), vision.get("fullatt_block_indexes", _WHOLE_LAYERS)
    if not isinstance(whole, list) or any(isinstance(index, bool) or not isinstance(index, int) for index in whole):
        message = f"config field 'fullatt_block_indexes' is {whole!r}; it must be a list of layers"
        raise InvalidConfigError(message, field="fullatt_block_indexes")
    return _spec(
        config,
        "qwen2_5_vl",
        vision_hidden_size=integer(vision, "hidden_size", 3584),
        vision_intermediate_size=integer(vision, "intermediate_size", 3420),
        vision_kinds="".join("f" if index in whole else "w" for index in range(depth)),
        vision_activation=word(vision, "hidden_act", "silu"),
        vision_window_size=integer(vision, "window_size", 112),
    )


def _vision(config: Config) -> Config:
    part = config.get("vision_config")
    if not isinstance(part, Mapping):
        message = "config lacks 'vision_config', an object that this model type needs"
        raise InvalidConfigError(message, field="vision_config")
    return part


def _spec(config: Config, family: str, **tower: object) -> QwenVisionSpec:
    """Return the numbers of a model of which ``tower`` gives those that the two families name differently."""
    vision = _vision(config)
    common = {
        "vision_heads": integer(vision, "num_heads", 16),
        "vision_patch_size": integer(vision, "patch_size", 14),
        "vision_temporal_patch_size": integer(vision, "temporal_patch_size", 2),
        "vision_channels": integer(vision, "in_channels", integer(vision, "in_chans", 3)),
        "vision_merge_size": integer(vision, "spatial_merge_size", 2),
    }
    return QwenVisionSpec(**(_text(config, family) | common | tower))  # type: ignore[arg-type]  # checked field by field


def _text(config: Config, family: str) -> dict[str, object]:
    """Return the language model's numbers, which older configs have beside the tower's."""
    nested = config.get("text_config")
    text = nested if isinstance(nested, Mapping) else {name: value for name, value in config.items() if name != "vision_config"}
    tied = flag(config, "tie_word_embeddings", default=flag(text, "tie_word_embeddings", default=False))
    spec = qwen2({**_TEXT, **text, "model_type": "qwen2", "tie_word_embeddings": tied})
    return {**asdict(spec), "family": family}


def build(spec: DecoderSpec) -> Architecture:
    """Return the language model's tree with the tower beside it."""
    assert isinstance(spec, QwenVisionSpec)  # noqa: S101 - the family's own SPEC
    text, sight = build_variant(spec), _sight(spec)
    reader = ImageReader(
        sight=sight,
        inner=text.embed,
        inputs_per_token=2,
        positions_per_token=AXES,
        hands_out_features=False,
    )
    return replace(
        text,
        stem=(*text.stem, *sight.weights()),
        outer_linears=(*text.outer_linears, *sight.linears()),
        buffer_bytes=text.buffer_bytes + rotary_buffer_bytes(sight.head_dim // 2),
        tables_per_token=True,
        embed=reader.embed,
        images=reader.image_input(None),
    )


def _sight(spec: QwenVisionSpec) -> PatchSight:
    width, patch, merged = spec.vision_hidden_size, spec.vision_patch_size, spec.vision_merge_size**2
    kernel = (width, spec.vision_channels, spec.vision_temporal_patch_size, patch, patch)
    return PatchSight(
        kernel=Weight("visual.patch_embed.proj.weight", KIND, kernel),
        layers=tuple(_layer(spec, kind) for kind in spec.vision_kinds),
        norm=_norm(spec, "visual.merger.ln_q"),
        merger=(
            vision_linear("visual.merger.mlp.0", width * merged, width * merged),
            vision_linear("visual.merger.mlp.2", width * merged, spec.hidden_size),
        ),
        merged=merged,
        head_dim=width // spec.vision_heads,
        reorders=bool(spec.vision_window_size),
    )


def _norm(spec: QwenVisionSpec, name: str) -> Norm:
    gated = bool(spec.vision_window_size)
    return Norm(name=name, style="rms" if gated else "layer", size=spec.vision_hidden_size, bias=not gated, kind=KIND)


def _layer(spec: QwenVisionSpec, kind: str) -> PatchLayer:
    width, inner, act = spec.vision_hidden_size, spec.vision_intermediate_size, spec.vision_activation
    window = (spec.vision_window_size // spec.vision_patch_size) ** 2 if kind == "w" else None
    return PatchLayer(
        attention_norm=_norm(spec, "norm1"),
        attention=ChunkedAttention(
            projection=vision_linear("attn.qkv", width, 3 * width),
            output=vision_linear("attn.proj", width, width),
            num_heads=spec.vision_heads,
            chunk=window,
        ),
        feed_forward_norm=_norm(spec, "norm2"),
        feed_forward=FeedForward(
            up=vision_linear("mlp.fc1", width, inner), down=vision_linear("mlp.fc2", inner, width), activation=act
        )
        if not spec.vision_window_size
        else GatedFeedForward(
            gate=vision_linear("mlp.gate_proj", width, inner),
            up=vision_linear("mlp.up_proj", width, inner),
            down=vision_linear("mlp.down_proj", inner, width),
            activation=act,
        ),
    )
