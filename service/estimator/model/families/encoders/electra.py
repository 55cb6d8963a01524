"""ELECTRA: BERTs whose tables may be narrower than their layers.

Field names and defaults are those of transformers 5.23 (``models/electra``). The head of its
discriminators, which tells replaced tokens, is not modelled.
"""

from dataclasses import asdict, dataclass, replace

from service.estimator.model.architecture import Architecture, EmbeddingOutput
from service.estimator.model.block_module import BlockModule
from service.estimator.model.config_reader import Config, read_integer
from service.estimator.model.families.encoders.bert import (
    EncoderSpec,
    build_backbone,
    build_linear,
    build_norm,
    read_encoder,
)
from service.estimator.model.heads.encoders import put_encoder_head
from service.estimator.model.modules.layers.encoder import (
    EncoderEmbeddings,
    PredictionHeadTransform,
    build_padding_mask,
)
from service.estimator.model.recording import Recording
from service.estimator.model.trees.decoder import check_sizes
from service.estimator.model.weights.tensors import Linear, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import chain
from service.estimator.values.heads import Head

Blocks = tuple[tuple[BlockModule, int], ...]
_DEFAULTS = {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024}


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectraSpec(EncoderSpec):
    """An encoder; ``embedding_size`` is the width of its tables."""

    embedding_size: int


SPEC = ElectraSpec


def electra(config: Config) -> ElectraSpec:
    """Return an ELECTRA; its head is gelu whatever the layers are."""
    spec = read_encoder(
        {**_DEFAULTS, **config},
        "electra",
        vocab_size=30522,
        max_position_embeddings=512,
        head_activation="gelu",
    )
    width = read_integer(config, "embedding_size", 128)
    return ElectraSpec(**asdict(spec), embedding_size=width)


def build(spec: ElectraSpec) -> Architecture:
    """Return the tree of an ELECTRA."""
    check_sizes(spec, "embedding_size")
    backbone, width = build_backbone(spec), spec.embedding_size
    positions = Weight(
        "position_embeddings.weight", "embedding", (spec.max_position_embeddings, width)
    )
    embeddings = EncoderEmbeddings(
        positions=positions,
        types=Weight("token_type_embeddings.weight", "embedding", (spec.type_vocab_size, width)),
        norm=build_norm("embeddings.LayerNorm", width),
        dropout=spec.embedding_dropout,
        counts_labels=spec.head == Head.DEFAULT,
    )
    project = (
        build_linear("embeddings_project", "other", width, spec.hidden_size)
        if width != spec.hidden_size
        else None
    )
    layers = () if project is None else (project,)
    narrow = replace(
        backbone,
        blocks=backbone.blocks if project is None else _set_first_apart(backbone.blocks),
        embedding=replace(backbone.embedding, shape=(spec.vocab_size, width)),
        position_embedding=positions,
        stem=(*embeddings.weights(), *(weight for layer in layers for weight in layer.weights())),
        outer_linears=layers,
        embed=lambda ctx, tokens: _embed(ctx, tokens, embeddings, project),
    )
    headed = put_encoder_head(narrow) if spec.head != Head.DEFAULT else _add_masked_lm(narrow, spec)
    return replace(headed, outer_linears=(*layers, *headed.outer_linears))


def _set_first_apart(blocks: Blocks) -> Blocks:
    """Return the layers with the first one by itself.

    Under autocast it gets a projection's 16 bits, and the others a norm's fp32.
    """
    ((block, count),) = blocks
    return ((block, 1), (block, count - 1)) if count > 1 else blocks


def _embed(
    ctx: Recording, tokens: Value, embeddings: EncoderEmbeddings, project: Linear | None
) -> EmbeddingOutput:
    """Record the embeddings; the mask is made of what is projected."""
    x = embeddings.embed_tokens(ctx, tokens)
    if project is not None:
        x = chain(ctx.tape, x, lambda _, value: ctx.linear(project, value, ""))
    return EmbeddingOutput(x=x, layer_args=build_padding_mask(ctx, x))


def _add_masked_lm(backbone: Architecture, spec: ElectraSpec) -> Architecture:
    """Return the encoder with its generator's head."""
    transform = PredictionHeadTransform(
        dense=build_linear("head.dense", "other", spec.hidden_size, spec.embedding_size),
        activation=spec.head_activation,
        norm=build_norm("head.LayerNorm", spec.embedding_size),
    )
    head = replace(backbone.head, in_features=spec.embedding_size, kind="other", bias=True)
    return replace(
        backbone,
        head=head,
        stem=(*backbone.stem, *transform.weights()),
        outer_linears=(transform.dense,),
        finish_hidden=transform.record,
    )
