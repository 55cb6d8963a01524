"""CLIP: an image tower and a text tower compared in pairs.

Field names and defaults are those of transformers 5.23 (``models/clip/configuration_clip.py``).
"""

from dataclasses import dataclass

from service.estimator.model.architecture import Embed, EmbeddingOutput
from service.estimator.model.config_reader import (
    Config,
    read_fraction,
    read_integer,
    read_section,
    read_string,
)
from service.estimator.model.images import ImageInput
from service.estimator.model.modules.attention.projections import Attention
from service.estimator.model.modules.layers.block import Block
from service.estimator.model.modules.layers.vision import (
    Dropouts,
    LayerNames,
    build_vision_layer,
    build_vision_norm,
)
from service.estimator.model.modules.mlp.feedforward import FeedForward
from service.estimator.model.modules.vision.encoder import PatchEmbeddings, Tower
from service.estimator.model.recording import Recording
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import build_decoder
from service.estimator.model.trees.vision import SCALE, VisionModel
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.processors.processor import read_processor
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.images import add_positions
from service.estimator.tape.ops.products import allocate_integers, embedding
from service.estimator.tape.sizes import ZERO

HEADS = ("CLIPModel",)
"""Classes of transformers that are modelled."""
INDEX_BYTES = 8
"""Both towers keep their positions as 64-bit buffers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipVisionSpec(DecoderSpec):
    """Numbers of a CLIP image tower, beside a text model's."""

    vision_hidden_size: int
    vision_intermediate_size: int
    vision_layers: int
    vision_heads: int
    vision_image_size: int
    vision_patch_size: int
    vision_channels: int = 3
    vision_activation: str = "quick_gelu"
    vision_attention_dropout: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipSpec(ClipVisionSpec):
    """Numbers of a CLIP model.

    They are its text tower's, its image tower's, and the width in which they are compared.
    """

    projection_dim: int


SPEC = ClipSpec


def clip(config: Config) -> ClipSpec:
    """Return a CLIP."""
    text, vision = read_section(config, "text_config"), read_section(config, "vision_config")
    hidden, heads = (
        read_integer(text, "hidden_size", 512),
        read_integer(text, "num_attention_heads", 8),
    )
    return ClipSpec(
        family="clip",
        vocab_size=read_integer(text, "vocab_size", 49408),
        hidden_size=hidden,
        num_hidden_layers=read_integer(text, "num_hidden_layers", 12),
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=hidden // heads,
        intermediate_size=read_integer(text, "intermediate_size", 2048),
        activation=read_string(text, "hidden_act", "quick_gelu"),
        norm="layer",
        gated=False,
        attention_bias=True,
        attention_output_bias=True,
        mlp_bias=True,
        rotary=False,
        max_position_embeddings=read_integer(text, "max_position_embeddings", 77),
        attention_dropout=read_fraction(text, "attention_dropout", 0.0),
        projection_dim=read_integer(config, "projection_dim", 512),
        **read_clip_vision(vision),  # type: ignore[arg-type]  # the names are those of TowerSpec
    )


def read_clip_vision(vision: Config) -> dict[str, object]:
    """Return the numbers of an image tower (``CLIPVisionConfig``)."""
    return {
        "vision_hidden_size": read_integer(vision, "hidden_size", 768),
        "vision_intermediate_size": read_integer(vision, "intermediate_size", 3072),
        "vision_layers": read_integer(vision, "num_hidden_layers", 12),
        "vision_heads": read_integer(vision, "num_attention_heads", 12),
        "vision_image_size": read_integer(vision, "image_size", 224),
        "vision_patch_size": read_integer(vision, "patch_size", 32),
        "vision_channels": read_integer(vision, "num_channels", 3),
        "vision_activation": read_string(vision, "hidden_act", "quick_gelu"),
        "vision_attention_dropout": read_fraction(vision, "attention_dropout", 0.0),
    }


def build(spec: DecoderSpec) -> VisionModel:
    """Return the tree of a CLIP.

    Its text tower's layers are the blocks.
    """
    assert isinstance(spec, ClipSpec)  # noqa: S101 - the family's own SPEC
    tower, text = build_clip_tower(spec), build_decoder(spec)
    projections = (
        _build_projection(
            "visual_projection", "vision", spec.vision_hidden_size, spec.projection_dim
        ),
        _build_projection("text_projection", "other", spec.hidden_size, spec.projection_dim),
    )
    positions = spec.max_position_embeddings + tower.patch_embeddings.num_positions
    fields = {name: getattr(text, name) for name in ("spec", "embedding", "position_embedding")}
    return VisionModel(
        **fields,
        blocks=((_build_text_layer(spec), spec.num_hidden_layers),),
        final_norm=Norm(name="final_layer_norm", style="layer", size=spec.hidden_size, bias=True),
        head=projections[1],
        stem=(*tower.weights(), *projections[0].weights(), SCALE),
        outer_linears=(*tower.linears(), *projections),
        buffer_bytes=INDEX_BYTES * positions,
        embed=_build_embed(spec),
        shifts_labels=False,
        upcasts_logits=False,
        images=ImageInput(
            tokens=tower.patch_embeddings.num_positions,
            every_sequence=True,
            contrasts=True,
            processor=read_processor(
                {
                    "model_type": "clip",
                    "image_size": spec.vision_image_size,
                    "patch_size": spec.vision_patch_size,
                }
            ),
        ),
        walker=("passes.vision", "ContrastiveStep"),
        tower=tower,
        projections=projections,
    )


def build_clip_tower(spec: ClipVisionSpec, *, used_layers: int | None = None) -> Tower:
    """Return an image tower of CLIP.

    ``used_layers`` of it are read, all of them by default.
    """
    patch_embeddings = PatchEmbeddings(
        image_size=spec.vision_image_size,
        patch_size=spec.vision_patch_size,
        num_channels=spec.vision_channels,
        width=spec.vision_hidden_size,
        class_token=True,
    )
    return Tower(
        patch_embeddings=patch_embeddings,
        layer=build_vision_layer(
            hidden=spec.vision_hidden_size,
            inner=spec.vision_intermediate_size,
            heads=spec.vision_heads,
            activation=spec.vision_activation,
            names=LayerNames(),
            dropouts=Dropouts(attention=spec.vision_attention_dropout),
        ),
        num_layers=spec.vision_layers,
        used_layers=spec.vision_layers if used_layers is None else used_layers,
        first_norm=build_vision_norm("pre_layrnorm", spec.vision_hidden_size),
        last_norm=build_vision_norm("post_layernorm", spec.vision_hidden_size),
        whole_last_norm=False,
    )


def _build_text_layer(spec: ClipSpec) -> Block:
    hidden, inner = spec.hidden_size, spec.intermediate_size
    return Block(
        attention_norm=Norm(name="layer_norm1", style="layer", size=hidden, bias=True),
        attention=Attention(
            projections=tuple(
                _build_linear(f"self_attn.{name}", "attention", hidden, hidden)
                for name in ("q_proj", "k_proj", "v_proj")
            ),
            output=_build_linear("self_attn.out_proj", "attention", hidden, hidden),
            num_heads=spec.num_attention_heads,
            num_kv_heads=spec.num_key_value_heads,
            head_dim=spec.head_dim,
            rotary=False,
            dropout=spec.attention_dropout,
        ),
        feed_forward_norm=Norm(name="layer_norm2", style="layer", size=hidden, bias=True),
        feed_forward=FeedForward(
            up=_build_linear("mlp.fc1", "mlp", hidden, inner),
            down=_build_linear("mlp.fc2", "mlp", inner, hidden),
            activation=spec.activation,
        ),
    )


def _build_embed(spec: ClipSpec) -> Embed:
    """Return the text tower's embedding function.

    It adds positions that all sequences share to the tokens.
    """
    table = Weight("wpe.weight", "embedding", (spec.max_position_embeddings, spec.hidden_size))

    def embed(ctx: Recording, tokens: Value) -> EmbeddingOutput:
        position_embeddings = embedding(
            ctx.tape,
            ctx.parameter(table),
            allocate_integers(ctx.tape, ZERO),
            ctx.shape.positions(spec.hidden_size),
        )
        x = add_positions(ctx.tape, tokens, position_embeddings)
        ctx.tape.free(position_embeddings)
        return EmbeddingOutput(x=x)

    return embed


def _build_projection(name: str, kind: str, ins: int, outs: int) -> Linear:
    return Linear(name=name, kind=kind, in_features=ins, out_features=outs)


def _build_linear(name: str, kind: str, ins: int, outs: int) -> Linear:
    return Linear(name=name, kind=kind, in_features=ins, out_features=outs, bias=True)
