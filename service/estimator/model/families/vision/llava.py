"""LLaVA: a CLIP image tower, a projector and a language model.

Two layers project the tower's features. Field names and defaults are those of transformers 5.23
(``models/llava/configuration_llava.py``).
"""

from dataclasses import asdict, dataclass, replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.config_reader import (
    Config,
    read_flag,
    read_section,
    read_string,
    read_sub_config,
)
from service.estimator.model.families.dense.llama import llama, mistral
from service.estimator.model.families.vision.clip import (
    INDEX_BYTES,
    ClipVisionSpec,
    build_clip_tower,
    read_clip_vision,
)
from service.estimator.model.modules.vision.multimodal import (
    ImageReader,
    MlpProjector,
    TowerVisionEncoder,
)
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import build_decoder
from service.estimator.model.weights.tensors import Linear
from service.estimator.processors.processor import read_processor
from service.estimator.values.errors import InvalidConfigError, NotModelledError

_TEXT = {"llama": llama, "mistral": mistral}
_VISION = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "image_size": 336,
    "patch_size": 14,
}
"""Numbers of a tower that the config says nothing of (``LlavaConfig.sub_configs_defaults``)."""
_TEXT_DEFAULTS = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
}
"""Defaults of ``LlamaConfig``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LlavaSpec(ClipVisionSpec):
    """Numbers of a LLaVA model.

    They are those of its language model, of its tower, and how many of the tower's layers are read.
    """

    text_family: str = "llama"
    vision_used_layers: int
    vision_drops_class_token: bool = True
    projector_activation: str = "gelu"
    projector_bias: bool = True


SPEC = LlavaSpec


def llava(config: Config) -> LlavaSpec:
    """Return a LLaVA."""
    text, vision = (
        read_section(config, "text_config"),
        read_sub_config(config, "vision_config", _VISION, {}),
    )
    family = read_string(text, "model_type", "llama")
    if family not in _TEXT:
        raise NotModelledError(
            f"text_config of model_type {family!r}", field="text_config", modelled=sorted(_TEXT)
        )
    kind = read_string(vision, "model_type", "clip_vision_model")
    if kind != "clip_vision_model":
        raise NotModelledError(
            f"vision_config of model_type {kind!r}",
            field="vision_config",
            modelled=["clip_vision_model"],
        )
    tied = read_flag(config, "tie_word_embeddings", default=False) or read_flag(
        text, "tie_word_embeddings", default=False
    )
    spec = _TEXT[family](
        {**_TEXT_DEFAULTS, **text, "tie_word_embeddings": tied, "model_type": family}
    )
    numbers = read_clip_vision(vision)
    return LlavaSpec(
        **{**asdict(spec), **numbers, "family": "llava"},
        text_family=family,
        vision_used_layers=_count_used_layers(config, numbers["vision_layers"]),
        vision_drops_class_token=read_string(config, "vision_feature_select_strategy", "default")
        == "default",
        projector_activation=read_string(config, "projector_hidden_act", "gelu"),
        projector_bias=read_flag(config, "multimodal_projector_bias", default=True),
    )


def _count_used_layers(config: Config, num_layers: object) -> int:
    """Count the layers of the tower that are read.

    ``vision_feature_layer`` counts hidden states, the first one included.
    """
    layer = config.get("vision_feature_layer", -2)
    assert isinstance(num_layers, int)  # noqa: S101 - read as one
    if isinstance(layer, list):
        what = "vision_feature_layer as a list (features of several layers side by side)"
        raise NotModelledError(what, field="vision_feature_layer", modelled=["one layer"])
    if (
        isinstance(layer, bool)
        or not isinstance(layer, int)
        or not -num_layers - 1 <= layer <= num_layers
    ):
        message = (
            f"config field 'vision_feature_layer' is {layer!r}; the tower has {num_layers + 1} "
            "hidden states"
        )
        raise InvalidConfigError(message, field="vision_feature_layer")
    used = layer % (num_layers + 1)
    if used == 0:
        raise NotModelledError(
            "vision_feature_layer 0",
            field="vision_feature_layer",
            modelled=["the output of a layer"],
        )
    return used


def build(spec: DecoderSpec) -> Architecture:
    """Return the language model's tree with tower and projection beside it."""
    assert isinstance(spec, LlavaSpec)  # noqa: S101 - the family's own SPEC
    text, tower = build_decoder(spec), build_clip_tower(spec, used_layers=spec.vision_used_layers)
    reader = ImageReader(
        vision_encoder=TowerVisionEncoder(
            tower=replace(tower, sharded=True), projector=_build_projector(spec)
        ),
    )
    tokens = (
        tower.patch_embeddings.num_patches
        if spec.vision_drops_class_token
        else tower.patch_embeddings.num_positions
    )
    return replace(
        text,
        stem=(*text.stem, *reader.vision_encoder.weights()),
        outer_linears=(*text.outer_linears, *reader.vision_encoder.linears()),
        buffer_bytes=text.buffer_bytes + INDEX_BYTES * tower.patch_embeddings.num_positions,
        embed=reader.embed,
        images=reader.build_image_input(
            tokens, tower.patch_embeddings.elements, read_processor(_describe_processor(spec))
        ),
    )


def _describe_processor(spec: LlavaSpec) -> Config:
    """Return the part of a config that decides an image's tokens."""
    strategy = "default" if spec.vision_drops_class_token else "full"
    sizes = {"image_size": spec.vision_image_size, "patch_size": spec.vision_patch_size}
    return {
        "model_type": "llava",
        "vision_feature_select_strategy": strategy,
        "vision_config": sizes,
    }


def _build_projector(spec: LlavaSpec) -> MlpProjector:
    def build_linear(name: str, ins: int) -> Linear:
        full, out = f"multi_modal_projector.{name}", spec.hidden_size
        return Linear(
            name=full, kind="other", in_features=ins, out_features=out, bias=spec.projector_bias
        )

    return MlpProjector(
        first=build_linear("linear_1", spec.vision_hidden_size),
        second=build_linear("linear_2", spec.hidden_size),
        activation=spec.projector_activation,
        drops_class_token=spec.vision_drops_class_token,
    )
