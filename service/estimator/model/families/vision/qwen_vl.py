"""Qwen2-VL and Qwen2.5-VL: a qwen2 with a vision encoder.

Tokens have positions on three axes, and images may be of any size. Field names and defaults are
those of transformers 5.23 (``models/qwen2_vl/configuration_qwen2_vl.py``, ``models/qwen2_5_vl``).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.config_reader import (
    Config,
    read_flag,
    read_integer,
    read_section,
    read_string,
)
from service.estimator.model.families.dense.qwen import qwen2
from service.estimator.model.families.dense.variants import VariantSpec, build_variant
from service.estimator.model.modules.layers.vision import KIND, build_vision_linear
from service.estimator.model.modules.mlp.feedforward import FeedForward, GatedFeedForward
from service.estimator.model.modules.vision.chunked_attention import ChunkedAttention
from service.estimator.model.modules.vision.multimodal import ImageReader
from service.estimator.model.modules.vision.qwen_vision import (
    PatchLayer,
    PatchVisionEncoder,
)
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import rotary_buffer_bytes
from service.estimator.model.weights.tensors import Norm, Weight
from service.estimator.processors.processor import read_processor
from service.estimator.values.errors import InvalidConfigError

AXES = 3
"""Number of position axes of a token: time, height and width."""
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
_FULL_ATTENTION_LAYERS = [7, 15, 23, 31]


@dataclass(frozen=True, slots=True, kw_only=True)
class QwenVisionSpec(VariantSpec):
    """Numbers of a Qwen-VL's language model and vision encoder.

    ``vision_kinds`` has ``w`` for layers within windows.
    """

    vision_hidden_size: int
    vision_intermediate_size: int
    vision_heads: int
    vision_kinds: str
    vision_output_size: int = 0
    """Width of what the tower hands out; 0 is the language model's."""
    vision_patch_size: int = 14
    vision_temporal_patch_size: int = 2
    vision_channels: int = 3
    vision_merge_size: int = 2
    vision_window_size: int = 0
    vision_activation: str = "quick_gelu"


SPEC = QwenVisionSpec


def qwen2_vl(config: Config) -> QwenVisionSpec:
    """Return a Qwen2-VL.

    The tower has layer norms and a plain feed-forward, and every layer reads complete images.
    """
    vision = read_section(config, "vision_config")
    hidden = read_integer(vision, "embed_dim", 1280)
    return _build_spec(
        config,
        "qwen2_vl",
        vision_hidden_size=hidden,
        vision_intermediate_size=hidden * read_integer(vision, "mlp_ratio", 4),
        vision_output_size=read_integer(vision, "hidden_size", 3584),
        vision_kinds="f" * read_integer(vision, "depth", 32),
        vision_activation=read_string(vision, "hidden_act", "quick_gelu"),
    )


def qwen2_5_vl(config: Config) -> QwenVisionSpec:
    """Return a Qwen2.5-VL.

    The tower has root-mean-square norms and gates, and windows in most of its layers.
    """
    vision = read_section(config, "vision_config")
    depth, full_attention_layers = (
        read_integer(vision, "depth", 32),
        vision.get("fullatt_block_indexes", _FULL_ATTENTION_LAYERS),
    )
    if not isinstance(full_attention_layers, list) or any(
        isinstance(index, bool) or not isinstance(index, int) for index in full_attention_layers
    ):
        message = (
            f"config field 'fullatt_block_indexes' is {full_attention_layers!r}; it must be a list "
            "of layers"
        )
        raise InvalidConfigError(message, field="fullatt_block_indexes")
    return _build_spec(
        config,
        "qwen2_5_vl",
        vision_hidden_size=read_integer(vision, "hidden_size", 3584),
        vision_intermediate_size=read_integer(vision, "intermediate_size", 3420),
        vision_output_size=read_integer(vision, "out_hidden_size", 3584),
        vision_kinds="".join(
            "f" if index in full_attention_layers else "w" for index in range(depth)
        ),
        vision_activation=read_string(vision, "hidden_act", "silu"),
        vision_window_size=read_integer(vision, "window_size", 112),
    )


def _build_spec(config: Config, family: str, **tower: object) -> QwenVisionSpec:
    """Return the numbers of a model.

    ``tower`` gives those that the two families name differently.
    """
    vision = read_section(config, "vision_config")
    common = {
        "vision_heads": read_integer(vision, "num_heads", 16),
        "vision_patch_size": read_integer(vision, "patch_size", 14),
        "vision_temporal_patch_size": read_integer(vision, "temporal_patch_size", 2),
        "vision_channels": read_integer(vision, "in_channels", read_integer(vision, "in_chans", 3)),
        "vision_merge_size": read_integer(vision, "spatial_merge_size", 2),
    }
    return QwenVisionSpec(**(_read_text(config, family) | common | tower))  # type: ignore[arg-type]  # checked field by field


def _read_text(config: Config, family: str) -> dict[str, object]:
    """Return the language model's numbers.

    Older configs have them beside the tower's.
    """
    nested = config.get("text_config")
    text = (
        nested
        if isinstance(nested, Mapping)
        else {name: value for name, value in config.items() if name != "vision_config"}
    )
    tied = read_flag(
        config, "tie_word_embeddings", default=read_flag(text, "tie_word_embeddings", default=False)
    )
    spec = qwen2({**_TEXT, **text, "model_type": "qwen2", "tie_word_embeddings": tied})
    return {**asdict(spec), "family": family}


def build(spec: DecoderSpec) -> Architecture:
    """Return the language model's tree with the tower beside it."""
    assert isinstance(spec, QwenVisionSpec)  # noqa: S101 - the family's own SPEC
    text, vision_encoder = build_variant(spec), _build_vision_encoder(spec)
    reader = ImageReader(
        vision_encoder=vision_encoder,
        inner=text.embed,
        inputs_per_token=2,
        positions_per_token=AXES,
        hands_out_features=False,
    )
    return replace(
        text,
        stem=(*text.stem, *vision_encoder.weights()),
        outer_linears=(*text.outer_linears, *vision_encoder.linears()),
        buffer_bytes=text.buffer_bytes + rotary_buffer_bytes(vision_encoder.head_dim // 2),
        tables_per_token=True,
        embed=reader.embed,
        images=reader.build_image_input(None, 0, read_processor(_describe_processor(spec))),
    )


def _describe_processor(spec: QwenVisionSpec) -> Config:
    """Return the part of a config that decides an image's tokens."""
    return {
        "model_type": spec.family,
        "vision_config": {
            "patch_size": spec.vision_patch_size,
            "temporal_patch_size": spec.vision_temporal_patch_size,
            "spatial_merge_size": spec.vision_merge_size,
        },
    }


def _build_vision_encoder(spec: QwenVisionSpec) -> PatchVisionEncoder:
    width, patch, patches_per_token = (
        spec.vision_hidden_size,
        spec.vision_patch_size,
        spec.vision_merge_size**2,
    )
    kernel = (width, spec.vision_channels, spec.vision_temporal_patch_size, patch, patch)
    return PatchVisionEncoder(
        kernel=Weight("visual.patch_embed.proj.weight", KIND, kernel),
        layers=tuple(_build_layer(spec, kind) for kind in spec.vision_kinds),
        norm=_build_norm(spec, "visual.merger.ln_q"),
        merger=(
            build_vision_linear(
                "visual.merger.mlp.0", width * patches_per_token, width * patches_per_token
            ),
            build_vision_linear(
                "visual.merger.mlp.2",
                width * patches_per_token,
                spec.vision_output_size or spec.hidden_size,
            ),
        ),
        patches_per_token=patches_per_token,
        head_dim=width // spec.vision_heads,
        patch_size=patch,
        reorders=bool(spec.vision_window_size),
    )


def _build_norm(spec: QwenVisionSpec, name: str) -> Norm:
    gated = bool(spec.vision_window_size)
    return Norm(
        name=name,
        style="rms" if gated else "layer",
        size=spec.vision_hidden_size,
        bias=not gated,
        kind=KIND,
    )


def _build_layer(spec: QwenVisionSpec, kind: str) -> PatchLayer:
    width, inner, act = (
        spec.vision_hidden_size,
        spec.vision_intermediate_size,
        spec.vision_activation,
    )
    window = (spec.vision_window_size // spec.vision_patch_size) ** 2 if kind == "w" else None
    return PatchLayer(
        attention_norm=_build_norm(spec, "norm1"),
        attention=ChunkedAttention(
            projection=build_vision_linear("attn.qkv", width, 3 * width),
            output=build_vision_linear("attn.proj", width, width),
            num_heads=spec.vision_heads,
            chunk=window,
            patch_size=spec.vision_patch_size,
        ),
        feed_forward_norm=_build_norm(spec, "norm2"),
        feed_forward=FeedForward(
            up=build_vision_linear("mlp.fc1", width, inner),
            down=build_vision_linear("mlp.fc2", inner, width),
            activation=act,
        )
        if not spec.vision_window_size
        else GatedFeedForward(
            gate=build_vision_linear("mlp.gate_proj", width, inner),
            up=build_vision_linear("mlp.up_proj", width, inner),
            down=build_vision_linear("mlp.down_proj", inner, width),
            activation=act,
        ),
    )
