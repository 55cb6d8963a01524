"""LLaVA: an image tower of CLIP, two layers that project its features, and a language model.

Field names and defaults are those of transformers 5.23 (``models/llava/configuration_llava.py``).
"""

from dataclasses import asdict, dataclass, replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.config_reader import Config, flag, part, word
from service.estimator.model.families.dense.llama import llama, mistral
from service.estimator.model.families.vision.clip import INDEX_BYTES, TowerSpec, clip_tower, clip_vision
from service.estimator.model.modules.vision.multimodal import ImageReader, TowerSight, TwoLayers
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import build_decoder
from service.estimator.model.weights.tensors import Linear
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
_TEXT_DEFAULTS = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
}
"""``LlamaConfig``'s own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LlavaSpec(TowerSpec):
    """A LLaVA: the numbers of its language model, of its tower, and how many of the tower's layers are read."""

    text_family: str = "llama"
    vision_used_layers: int
    vision_drops_class_token: bool = True
    projector_activation: str = "gelu"
    projector_bias: bool = True


SPEC = LlavaSpec


def llava(config: Config) -> LlavaSpec:
    """Return a LLaVA."""
    text, vision = part(config, "text_config"), {**_VISION, **part(config, "vision_config")}
    family = word(text, "model_type", "llama")
    if family not in _TEXT:
        raise NotModelledError(f"text_config of model_type {family!r}", field="text_config", modelled=sorted(_TEXT))
    kind = word(vision, "model_type", "clip_vision_model")
    if kind != "clip_vision_model":
        raise NotModelledError(f"vision_config of model_type {kind!r}", field="vision_config", modelled=["clip_vision_model"])
    tied = flag(config, "tie_word_embeddings", default=False) or flag(text, "tie_word_embeddings", default=False)
    spec = _TEXT[family]({**_TEXT_DEFAULTS, **text, "tie_word_embeddings": tied, "model_type": family})
    numbers = clip_vision(vision)
    return LlavaSpec(
        **{**asdict(spec), **numbers, "family": "llava"},
        text_family=family,
        vision_used_layers=_used_layers(config, numbers["vision_layers"]),
        vision_drops_class_token=word(config, "vision_feature_select_strategy", "default") == "default",
        projector_activation=word(config, "projector_hidden_act", "gelu"),
        projector_bias=flag(config, "multimodal_projector_bias", default=True),
    )


def _used_layers(config: Config, num_layers: object) -> int:
    """Return how many layers of the tower are read: ``vision_feature_layer`` counts hidden states, the first one included."""
    layer = config.get("vision_feature_layer", -2)
    assert isinstance(num_layers, int)  # noqa: S101 - read as one
    if isinstance(layer, list):
        what = "vision_feature_layer as a list (features of several layers side by side)"
        raise NotModelledError(what, field="vision_feature_layer", modelled=["one layer"])
    if isinstance(layer, bool) or not isinstance(layer, int) or not -num_layers - 1 <= layer <= num_layers:
        message = f"config field 'vision_feature_layer' is {layer!r}; the tower has {num_layers + 1} hidden states"
        raise InvalidConfigError(message, field="vision_feature_layer")
    used = layer % (num_layers + 1)
    if used == 0:
        raise NotModelledError("vision_feature_layer 0", field="vision_feature_layer", modelled=["the output of a layer"])
    return used


def build(spec: DecoderSpec) -> Architecture:
    """Return the language model's tree with tower and projection beside it."""
    assert isinstance(spec, LlavaSpec)  # noqa: S101 - the family's own SPEC
    text, tower = build_decoder(spec), clip_tower(spec, used_layers=spec.vision_used_layers)
    reader = ImageReader(sight=TowerSight(tower=replace(tower, sharded=True), projector=_projector(spec)))
    tokens = tower.pixels.num_patches if spec.vision_drops_class_token else tower.pixels.num_positions
    return replace(
        text,
        stem=(*text.stem, *reader.sight.weights()),
        outer_linears=(*text.outer_linears, *reader.sight.linears()),
        buffer_bytes=text.buffer_bytes + INDEX_BYTES * tower.pixels.num_positions,
        embed=reader.embed,
        images=reader.image_input(tokens, tower.pixels.numel),
    )


def _projector(spec: LlavaSpec) -> TwoLayers:
    def layer(name: str, ins: int) -> Linear:
        full, out = f"multi_modal_projector.{name}", spec.hidden_size
        return Linear(name=full, kind="other", in_features=ins, out_features=out, bias=spec.projector_bias)

    return TwoLayers(
        first=layer("linear_1", spec.vision_hidden_size),
        second=layer("linear_2", spec.hidden_size),
        activation=spec.projector_activation,
        drops_class_token=spec.vision_drops_class_token,
    )
