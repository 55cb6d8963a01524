"""Gemma 3 with its SigLIP tower, whose features stand among the tokens; text alone leaves the tower idle.

Field names and defaults are those of transformers 5.23 (``models/gemma3/configuration_gemma3.py``, ``models/siglip``).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.config_reader import Config, flag, integer, number, word
from service.estimator.model.families.dense.gemma import gemma3_text
from service.estimator.model.families.dense.variants import VariantSpec, build_variant
from service.estimator.model.modules.layers.vision import Dropouts, LayerNames, vision_layer, vision_norm
from service.estimator.model.modules.vision.encoder import Pixels, Tower
from service.estimator.model.modules.vision.multimodal import ImageReader, PooledProduct, TowerSight
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.weights.tensors import Norm, Weight
from service.estimator.values.errors import InvalidConfigError, NotModelledError

POSITION_BYTES = 8
"""The tower keeps the index of each patch as a 64-bit buffer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TowerSpec(VariantSpec):
    """A gemma 3: the text model's numbers, and those of a SigLIP tower without a pooling head."""

    vision_hidden_size: int
    vision_intermediate_size: int
    vision_layers: int
    vision_patch_size: int
    vision_patches: int
    vision_heads: int = 16
    vision_channels: int = 3
    vision_activation: str = "gelu_pytorch_tanh"
    vision_attention_dropout: float = 0.0
    tokens_per_image: int = 256


SPEC = TowerSpec


def gemma3(config: Config) -> TowerSpec:
    """Return a gemma 3 with its tower."""
    text, vision = _part(config, "text_config"), _part(config, "vision_config")
    kind = word(vision, "model_type", "siglip_vision_model")
    if kind != "siglip_vision_model":
        message = f"vision_config is of model_type {kind!r}; a gemma3 has a siglip_vision_model"
        raise InvalidConfigError(message, field="vision_config")
    if flag(vision, "vision_use_head", default=True):
        what = "a vision tower with a pooling head"
        raise NotModelledError(what, field="vision_config", modelled=["vision_use_head: false"])
    tied = config.get("tie_word_embeddings", True)
    decoder = gemma3_text({"tie_word_embeddings": tied, **text, "model_type": "gemma3_text"})
    patch = integer(vision, "patch_size", 16)
    return TowerSpec(
        **{**asdict(decoder), "family": "gemma3"},
        vision_hidden_size=integer(vision, "hidden_size", 768),
        vision_intermediate_size=integer(vision, "intermediate_size", 3072),
        vision_layers=integer(vision, "num_hidden_layers", 12),
        vision_patch_size=patch,
        vision_patches=(integer(vision, "image_size", 224) // patch) ** 2,
        vision_heads=integer(vision, "num_attention_heads", 12),
        vision_channels=integer(vision, "num_channels", 3),
        vision_activation=word(vision, "hidden_act", "gelu_pytorch_tanh"),
        vision_attention_dropout=number(vision, "attention_dropout", 0.0),
        tokens_per_image=integer(config, "mm_tokens_per_image", 256),
    )


def _part(config: Config, name: str) -> Config:
    part = config.get(name)
    if not isinstance(part, Mapping):
        message = f"config lacks {name!r}, an object that this model type needs"
        raise InvalidConfigError(message, field=name)
    return part


def build(spec: DecoderSpec) -> Architecture:
    """Return the text model's tree with tower and projection beside it."""
    assert isinstance(spec, TowerSpec)  # noqa: S101 - the family's own SPEC
    text, width = build_variant(spec), spec.vision_hidden_size
    projector = PooledProduct(
        norm=Norm(name="mm_soft_emb_norm", style="rms_plus_one", size=width),
        product=Weight("mm_input_projection_weight", "other", (width, spec.hidden_size)),
    )
    tower = _tower(spec)
    reader = ImageReader(
        sight=TowerSight(tower=tower, projector=projector),
        inner=text.embed,
        masks_images=True,
        inputs_per_token=2,
    )
    return replace(
        text,
        stem=(*text.stem, *reader.sight.weights()),
        outer_linears=(*text.outer_linears, *reader.sight.linears()),
        buffer_bytes=text.buffer_bytes + POSITION_BYTES * spec.vision_patches,
        embed=reader.embed,
        images=reader.image_input(spec.tokens_per_image, tower.pixels.numel),
    )


def _tower(spec: TowerSpec) -> Tower:
    """Return a SigLIP tower: no class token, one norm after the last layer (``SiglipVisionModel``)."""
    width, patch = spec.vision_hidden_size, spec.vision_patch_size
    side = round(spec.vision_patches**0.5) * patch
    return Tower(
        pixels=Pixels(image_size=side, patch_size=patch, num_channels=spec.vision_channels, width=width, bias=True),
        layer=vision_layer(
            hidden=width,
            inner=spec.vision_intermediate_size,
            heads=spec.vision_heads,
            activation=spec.vision_activation,
            names=LayerNames(),
            dropouts=Dropouts(attention=spec.vision_attention_dropout),
        ),
        num_layers=spec.vision_layers,
        used_layers=spec.vision_layers,
        last_norm=vision_norm("post_layernorm", width),
        sharded=True,
    )
