"""Gemma 3 with its SigLIP tower.

The tower's features stand among the tokens; text alone leaves the tower idle. Field names and
defaults are those of transformers 5.23 (``models/gemma3/configuration_gemma3.py``,
``models/siglip``).
"""

from dataclasses import asdict, dataclass, replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.config_reader import (
    Config,
    read_flag,
    read_fraction,
    read_integer,
    read_section,
    read_string,
)
from service.estimator.model.families.dense.gemma import gemma3_text
from service.estimator.model.families.dense.variants import VariantSpec, build_variant
from service.estimator.model.modules.layers.vision import (
    Dropouts,
    LayerNames,
    build_vision_layer,
    build_vision_norm,
)
from service.estimator.model.modules.vision.encoder import PatchEmbeddings, Tower
from service.estimator.model.modules.vision.multimodal import (
    ImageReader,
    PoolingProjector,
    TowerVisionEncoder,
)
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.weights.tensors import Norm, Weight
from service.estimator.processors.processor import read_processor
from service.estimator.values.errors import InvalidConfigError, NotModelledError

POSITION_BYTES = 8
"""The tower keeps the index of each patch as a 64-bit buffer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemma3Spec(VariantSpec):
    """Numbers of a gemma 3 with images.

    They are the text model's, and those of a SigLIP tower without a pooling head.
    """

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


SPEC = Gemma3Spec


def gemma3(config: Config) -> Gemma3Spec:
    """Return a gemma 3 with its tower."""
    text, vision = read_section(config, "text_config"), read_section(config, "vision_config")
    kind = read_string(vision, "model_type", "siglip_vision_model")
    if kind != "siglip_vision_model":
        message = f"vision_config is of model_type {kind!r}; a gemma3 has a siglip_vision_model"
        raise InvalidConfigError(message, field="vision_config")
    if read_flag(vision, "vision_use_head", default=True):
        what = "a vision tower with a pooling head"
        raise NotModelledError(what, field="vision_config", modelled=["vision_use_head: false"])
    tied = config.get("tie_word_embeddings", True)
    decoder = gemma3_text({"tie_word_embeddings": tied, **text, "model_type": "gemma3_text"})
    patch = read_integer(vision, "patch_size", 16)
    return Gemma3Spec(
        **{**asdict(decoder), "family": "gemma3"},
        vision_hidden_size=read_integer(vision, "hidden_size", 768),
        vision_intermediate_size=read_integer(vision, "intermediate_size", 3072),
        vision_layers=read_integer(vision, "num_hidden_layers", 12),
        vision_patch_size=patch,
        vision_patches=(read_integer(vision, "image_size", 224) // patch) ** 2,
        vision_heads=read_integer(vision, "num_attention_heads", 12),
        vision_channels=read_integer(vision, "num_channels", 3),
        vision_activation=read_string(vision, "hidden_act", "gelu_pytorch_tanh"),
        vision_attention_dropout=read_fraction(vision, "attention_dropout", 0.0),
        tokens_per_image=read_integer(config, "mm_tokens_per_image", 256),
    )


def build(spec: DecoderSpec) -> Architecture:
    """Return the text model's tree with tower and projection beside it."""
    assert isinstance(spec, Gemma3Spec)  # noqa: S101 - the family's own SPEC
    text, width = build_variant(spec), spec.vision_hidden_size
    projector = PoolingProjector(
        norm=Norm(name="mm_soft_emb_norm", style="rms_plus_one", size=width),
        product=Weight("mm_input_projection_weight", "other", (width, spec.hidden_size)),
    )
    tower = _build_tower(spec)
    reader = ImageReader(
        vision_encoder=TowerVisionEncoder(tower=tower, projector=projector),
        inner=text.embed,
        masks_images=True,
        inputs_per_token=2,
    )
    return replace(
        text,
        stem=(*text.stem, *reader.vision_encoder.weights()),
        outer_linears=(*text.outer_linears, *reader.vision_encoder.linears()),
        buffer_bytes=text.buffer_bytes + POSITION_BYTES * spec.vision_patches,
        embed=reader.embed,
        images=reader.build_image_input(
            spec.tokens_per_image,
            tower.patch_embeddings.elements,
            read_processor(_describe_processor(spec)),
        ),
    )


def _describe_processor(spec: Gemma3Spec) -> Config:
    """Return the part of a config that decides an image's tokens."""
    side = round(spec.vision_patches**0.5) * spec.vision_patch_size
    return {
        "model_type": "gemma3",
        "mm_tokens_per_image": spec.tokens_per_image,
        "vision_config": {"image_size": side, "patch_size": spec.vision_patch_size},
    }


def _build_tower(spec: Gemma3Spec) -> Tower:
    """Return a SigLIP tower (``SiglipVisionModel``).

    It has no class token, and one norm after the last layer.
    """
    width, patch = spec.vision_hidden_size, spec.vision_patch_size
    side = round(spec.vision_patches**0.5) * patch
    return Tower(
        patch_embeddings=PatchEmbeddings(
            image_size=side,
            patch_size=patch,
            num_channels=spec.vision_channels,
            width=width,
            bias=True,
        ),
        layer=build_vision_layer(
            hidden=width,
            inner=spec.vision_intermediate_size,
            heads=spec.vision_heads,
            activation=spec.vision_activation,
            names=LayerNames(),
            dropouts=Dropouts(attention=spec.vision_attention_dropout),
        ),
        num_layers=spec.vision_layers,
        used_layers=spec.vision_layers,
        last_norm=build_vision_norm("post_layernorm", width),
        sharded=True,
    )
