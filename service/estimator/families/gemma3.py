"""Gemma 3 with its vision tower, given text alone: the tower's weights are there, its forward does not run.

Field names and defaults are those of transformers 5.23 (``models/gemma3/configuration_gemma3.py``, ``models/siglip``).
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace

from service.estimator.architecture import Architecture
from service.estimator.errors import InvalidConfigError, NotModelledError
from service.estimator.families.gemma import gemma3_text
from service.estimator.families.reading import Config, flag, integer, word
from service.estimator.families.variants import VariantSpec, build_variant
from service.estimator.modules.weights import Linear, Norm, Weight
from service.estimator.spec import DecoderSpec

NUM_CHANNELS = 3
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
    )


def _part(config: Config, name: str) -> Config:
    part = config.get(name)
    if not isinstance(part, Mapping):
        message = f"config lacks {name!r}, an object that this model type needs"
        raise InvalidConfigError(message, field=name)
    return part


def build(spec: DecoderSpec) -> Architecture:
    """Return the text model's tree with the tower's weights beside it."""
    assert isinstance(spec, TowerSpec)  # noqa: S101 - the family's own SPEC
    text = build_variant(spec)
    return replace(
        text,
        stem=tuple(_tower(spec)),
        buffer_bytes=text.buffer_bytes + POSITION_BYTES * spec.vision_patches,
        idle_tower=True,
    )


def _tower(spec: TowerSpec) -> Iterator[Weight]:
    """Yield the tower's tensors (SiglipVisionTransformer) and the projector's (Gemma3MultiModalProjector)."""
    width, patch = spec.vision_hidden_size, spec.vision_patch_size
    yield Weight("patch_embedding.weight", "vision", (width, NUM_CHANNELS, patch, patch))
    yield Weight("patch_embedding.bias", "vision", (width,))
    yield Weight("position_embedding.weight", "embedding", (spec.vision_patches, width))
    for layer in range(spec.vision_layers):
        for name in ("layer_norm1", "layer_norm2"):
            yield from _vision_norm(f"encoder.{layer}.{name}", width)
        for name, ins, outs in _linears(spec):
            yield from Linear(
                name=f"encoder.{layer}.{name}", kind="vision", in_features=ins, out_features=outs, bias=True
            ).weights()
    yield from _vision_norm("post_layernorm", width)
    yield Weight("mm_input_projection_weight", "other", (width, spec.hidden_size))
    yield from Norm(name="mm_soft_emb_norm", style="rms_plus_one", size=width).weights()


def _linears(spec: TowerSpec) -> Iterator[tuple[str, int, int]]:
    width, inner = spec.vision_hidden_size, spec.vision_intermediate_size
    for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
        yield name, width, width
    yield "fc1", width, inner
    yield "fc2", inner, width


def _vision_norm(name: str, width: int) -> Iterator[Weight]:
    for part in ("weight", "bias"):
        yield Weight(f"{name}.{part}", "vision", (width,))
