"""Mistral 3: a mistral beside a Pixtral tower.

The tower's patches are merged before two layers project them. Field names and defaults are those of
transformers 5.23 (``models/mistral3/configuration_mistral3.py``, ``models/pixtral``). Text has all
of its terms; images have none, but for what an engine holds of the largest one.
"""

from dataclasses import asdict, dataclass, replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.config_reader import (
    Config,
    read_flag,
    read_integer,
    read_string,
    read_sub_config,
)
from service.estimator.model.families.dense.llama import mistral
from service.estimator.model.modules.attention.projections import Attention
from service.estimator.model.modules.layers.block import Block
from service.estimator.model.modules.layers.vision import KIND, build_vision_linear
from service.estimator.model.modules.mlp.feedforward import GatedFeedForward
from service.estimator.model.modules.vision.unused_tower import UnusedVisionTower
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import build_decoder, rotary_buffer_bytes
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.processors.processor import read_processor
from service.estimator.values.errors import InvalidConfigError, NotModelledError

_TEXT = {
    "vocab_size": 131072,
    "hidden_size": 5120,
    "intermediate_size": 32768,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 131072,
    "sliding_window": None,
}
"""Numbers of a text model that the config says nothing of."""
_MISTRAL = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
}
"""Defaults of ``MistralConfig``."""
_PIXTRAL = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "image_size": 1024,
    "patch_size": 16,
}
"""Defaults of ``PixtralVisionConfig``."""
_VISION = _PIXTRAL | {
    "image_size": 1540,
    "patch_size": 14,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistral3Spec(DecoderSpec):
    """Numbers of a Mistral 3 model.

    They are those of its language model, of its tower, and of the projector between them.
    """

    vision_hidden_size: int
    vision_intermediate_size: int
    vision_layers: int
    vision_heads: int
    vision_image_size: int
    vision_patch_size: int
    vision_channels: int = 3
    vision_activation: str = "gelu"
    spatial_merge_size: int = 2
    projector_bias: bool = False


SPEC = Mistral3Spec


def mistral3(config: Config) -> Mistral3Spec:
    """Return a Mistral 3.

    Its head is its own unless a config says otherwise, as in its checkpoints.
    """
    text, vision = (
        read_sub_config(config, "text_config", _TEXT, _MISTRAL),
        read_sub_config(config, "vision_config", _VISION, _PIXTRAL),
    )
    for inner, field, expected in (
        (text, "text_config", "mistral"),
        (vision, "vision_config", "pixtral"),
    ):
        if (kind := read_string(inner, "model_type", expected)) != expected:
            raise NotModelledError(
                f"{field} of model_type {kind!r}", field=field, modelled=[expected]
            )
    if (layer := config.get("vision_feature_layer", -1)) != -1:
        what = f"vision_feature_layer {layer!r}"
        raise NotModelledError(
            what, field="vision_feature_layer", modelled=["-1, the output of the last layer"]
        )
    tied = read_flag(config, "tie_word_embeddings", default=False) or read_flag(
        text, "tie_word_embeddings", default=False
    )
    spec = mistral({**text, "tie_word_embeddings": tied, "model_type": "mistral"})
    hidden, heads = read_integer(vision, "hidden_size"), read_integer(vision, "num_attention_heads")
    if hidden % heads:
        message = (
            f"hidden_size {hidden} of the tower is not divisible by its num_attention_heads {heads}"
        )
        raise InvalidConfigError(message, field="vision_config")
    return Mistral3Spec(
        **{**asdict(spec), "family": "mistral3"},
        vision_hidden_size=hidden,
        vision_intermediate_size=read_integer(vision, "intermediate_size"),
        vision_layers=read_integer(vision, "num_hidden_layers"),
        vision_heads=heads,
        vision_image_size=read_integer(vision, "image_size"),
        vision_patch_size=read_integer(vision, "patch_size"),
        vision_channels=read_integer(vision, "num_channels", 3),
        vision_activation=read_string(vision, "hidden_act", "gelu"),
        spatial_merge_size=read_integer(config, "spatial_merge_size", 2),
        projector_bias=read_flag(config, "multimodal_projector_bias", default=False),
    )


def build(spec: DecoderSpec) -> Architecture:
    """Return the language model's tree with tower and projection beside it."""
    assert isinstance(spec, Mistral3Spec)  # noqa: S101 - the family's own SPEC
    text, tower = build_decoder(spec), _build_vision_tower(spec)
    side = spec.vision_image_size // (spec.vision_patch_size * spec.spatial_merge_size)
    return replace(
        text,
        stem=(*text.stem, *tower.weights()),
        outer_linears=(*text.outer_linears, *tower.linears()),
        buffer_bytes=text.buffer_bytes
        + rotary_buffer_bytes(spec.vision_hidden_size // spec.vision_heads),
        images=tower.build_image_input(
            pixels=spec.vision_channels * spec.vision_image_size**2,
            max_tokens=side**2,
            processor=read_processor(_describe_processor(spec)),
        ),
    )


def _describe_processor(spec: Mistral3Spec) -> Config:
    """Return the part of a config that decides an image's tokens."""
    sizes = {"image_size": spec.vision_image_size, "patch_size": spec.vision_patch_size}
    return {
        "model_type": "mistral3",
        "spatial_merge_size": spec.spatial_merge_size,
        "vision_config": sizes,
    }


def _build_vision_tower(spec: Mistral3Spec) -> UnusedVisionTower:
    width, out, patch = spec.vision_hidden_size, spec.hidden_size, spec.vision_patch_size
    return UnusedVisionTower(
        stem=(
            Weight(
                "vision_tower.patch_conv.weight", KIND, (width, spec.vision_channels, patch, patch)
            ),
        ),
        layer=_build_layer(spec),
        num_layers=spec.vision_layers,
        scope="vision_tower.transformer.layers.",
        norms=(
            _build_norm("vision_tower.ln_pre", width),
            _build_norm("multi_modal_projector.norm", width),
        ),
        projector=(
            _build_projector_linear(
                "patch_merger.merging_layer", width * spec.spatial_merge_size**2, width
            ),
            _build_projector_linear("linear_1", width, out, bias=spec.projector_bias),
            _build_projector_linear("linear_2", out, out, bias=spec.projector_bias),
        ),
    )


def _build_layer(spec: Mistral3Spec) -> Block:
    width, inner, heads = spec.vision_hidden_size, spec.vision_intermediate_size, spec.vision_heads
    return Block(
        attention_norm=_build_norm("attention_norm", width),
        attention=Attention(
            projections=tuple(
                build_vision_linear(f"attention.{name}", width, width, bias=False)
                for name in ("q_proj", "k_proj", "v_proj")
            ),
            output=build_vision_linear("attention.o_proj", width, width, bias=False),
            num_heads=heads,
            num_kv_heads=heads,
            head_dim=width // heads,
            causal=False,
        ),
        feed_forward_norm=_build_norm("ffn_norm", width),
        feed_forward=GatedFeedForward(
            gate=build_vision_linear("feed_forward.gate_proj", width, inner, bias=False),
            up=build_vision_linear("feed_forward.up_proj", width, inner, bias=False),
            down=build_vision_linear("feed_forward.down_proj", inner, width, bias=False),
            activation=spec.vision_activation,
        ),
    )


def _build_norm(name: str, size: int) -> Norm:
    return Norm(name=name, style="rms", size=size, kind=KIND)


def _build_projector_linear(name: str, ins: int, outs: int, *, bias: bool = False) -> Linear:
    return Linear(
        name=f"multi_modal_projector.{name}",
        kind="other",
        in_features=ins,
        out_features=outs,
        bias=bias,
    )
