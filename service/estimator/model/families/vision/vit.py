"""ViT with its image classification head.

Field names and defaults are those of transformers 5.23 (``models/vit/configuration_vit.py``).
"""

from dataclasses import dataclass

from service.estimator.model.config_reader import (
    Config,
    read_flag,
    read_fraction,
    read_head_dim,
    read_integer,
    read_string,
)
from service.estimator.model.images import ImageInput
from service.estimator.model.modules.layers.vision import (
    Dropouts,
    LayerNames,
    build_vision_layer,
    build_vision_norm,
)
from service.estimator.model.modules.vision.encoder import PatchEmbeddings, Tower
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import check_decoder
from service.estimator.model.trees.vision import VisionModel
from service.estimator.model.weights.tensors import Linear
from service.estimator.processors.processor import read_processor
from service.estimator.values.errors import NotModelledError

_NAMES = LayerNames(
    norms=("layernorm_before", "layernorm_after"), attention="attention", output="o_proj"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VitSpec(DecoderSpec):
    """Numbers of a ViT model.

    ``vocab_size`` counts classes, and ``max_position_embeddings`` the positions of its one size of
    image.
    """

    image_size: int
    patch_size: int
    num_channels: int


SPEC = VitSpec


def vit(config: Config) -> VitSpec:
    """Return a ViT."""
    hidden, heads = (
        read_integer(config, "hidden_size", 768),
        read_integer(config, "num_attention_heads", 12),
    )
    image, patch = read_integer(config, "image_size", 224), read_integer(config, "patch_size", 16)
    bias = read_flag(config, "qkv_bias", default=True)
    dropped = read_fraction(config, "hidden_dropout_prob", 0.0)
    return VitSpec(
        family="vit",
        vocab_size=_count_labels(config),
        hidden_size=hidden,
        num_hidden_layers=read_integer(config, "num_hidden_layers", 12),
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=read_head_dim(config, hidden, heads),
        intermediate_size=read_integer(config, "intermediate_size", 3072),
        activation=read_string(config, "hidden_act", "gelu"),
        norm="layer",
        gated=False,
        attention_bias=bias,
        attention_output_bias=True,
        mlp_bias=True,
        rotary=False,
        max_position_embeddings=(image // patch) ** 2 + 1,
        attention_dropout=read_fraction(config, "attention_probs_dropout_prob", 0.0),
        residual_dropout=dropped,
        embedding_dropout=dropped,
        image_size=image,
        patch_size=patch,
        num_channels=read_integer(config, "num_channels", 3),
    )


def _count_labels(config: Config) -> int:
    """Count the classes.

    It is their number, or that of their names; transformers' default is 2.
    """
    names = config.get("id2label")
    return read_integer(
        config, "num_labels", len(names) if isinstance(names, dict) and names else 2
    )


def build(spec: DecoderSpec) -> VisionModel:
    """Return the tree of a ViT."""
    assert isinstance(spec, VitSpec)  # noqa: S101 - the family's own SPEC
    check_decoder(spec)
    tower = _build_tower(spec)
    head = Linear(
        name="classifier",
        kind="other",
        in_features=spec.hidden_size,
        out_features=spec.vocab_size,
        bias=True,
    )
    return VisionModel(
        spec=spec,
        embedding=tower.patch_embeddings.projection[0],
        position_embedding=tower.patch_embeddings.positions,
        blocks=((tower.layer, spec.num_hidden_layers),),
        final_norm=build_vision_norm("layernorm", spec.hidden_size),
        head=head,
        stem=(*tower.patch_embeddings.projection[1:], tower.patch_embeddings.token),
        outer_linears=(head,),
        shifts_labels=False,
        upcasts_logits=False,
        masks=(),
        images=ImageInput(
            tokens=spec.max_position_embeddings,
            every_sequence=True,
            processor=read_processor(
                {
                    "model_type": "vit",
                    "image_size": spec.image_size,
                    "patch_size": spec.patch_size,
                }
            ),
        ),
        walker=("passes.vision", "ClassifierStep"),
        tower=tower,
    )


def _build_tower(spec: VitSpec) -> Tower:
    if spec.image_size % spec.patch_size:
        what = f"images of {spec.image_size} pixels in patches of {spec.patch_size}"
        raise NotModelledError(
            what, field="patch_size", modelled=["a patch_size that divides image_size"]
        )
    return Tower(
        patch_embeddings=PatchEmbeddings(
            image_size=spec.image_size,
            patch_size=spec.patch_size,
            num_channels=spec.num_channels,
            width=spec.hidden_size,
            bias=True,
            class_token=True,
            position_table=False,
        ),
        layer=build_vision_layer(
            hidden=spec.hidden_size,
            inner=spec.intermediate_size,
            heads=spec.num_attention_heads,
            activation=spec.activation,
            names=_NAMES,
            bias=spec.attention_bias,
            dropouts=Dropouts(attention=spec.attention_dropout, hidden=spec.residual_dropout),
        ),
        num_layers=spec.num_hidden_layers,
        used_layers=spec.num_hidden_layers,
        scope="",
        sharded=True,
        dropout=spec.embedding_dropout,
    )
