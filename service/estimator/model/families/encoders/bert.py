"""BERT, RoBERTa and DistilBERT, with the heads of ``model/heads``.

RoBERTa includes XLM-RoBERTa and CamemBERT. Field names and defaults are those of transformers 5.23
(``models/bert``, ``models/roberta``, ``models/distilbert``).
"""

from dataclasses import dataclass, replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.config_reader import (
    Config,
    apply_aliases,
    read_flag,
    read_fraction,
    read_head_dim,
    read_integer,
    read_string,
)
from service.estimator.model.heads.encoders import put_encoder_head
from service.estimator.model.modules.attention.projections import Attention
from service.estimator.model.modules.layers.encoder import (
    EncoderBlock,
    EncoderEmbeddings,
    PredictionHeadTransform,
)
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import build_decoder
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.values.errors import NotModelledError
from service.estimator.values.heads import Head

INDEX_BYTES = 8
"""Buffers of positions and token types are 64-bit integers."""
LAYER_NAMES = {
    "distilbert": ("q_lin", "k_lin", "v_lin", "out_lin", "ffn.lin1", "ffn.lin2", "vocab_transform"),
    "": (
        "query",
        "key",
        "value",
        "output.dense",
        "intermediate.dense",
        "output.dense",
        "transform.dense",
    ),
}
"""Module names of query, key, value, attention output, both feed-forward layers and the head's
layer.
"""

POSITIONS_PER_TOKEN = frozenset(("camembert", "roberta", "xlm-roberta"))
"""Families that count positions from the tokens that are no padding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderSpec(DecoderSpec):
    """An encoder; ``type_vocab_size`` 0 means no token types."""

    type_vocab_size: int = 0
    head_activation: str = "gelu"


SPEC = EncoderSpec


def bert(config: Config) -> EncoderSpec:
    """Return a BERT."""
    return read_encoder(
        config,
        "bert",
        vocab_size=30522,
        max_position_embeddings=512,
        head_activation=read_string(config, "hidden_act", "gelu"),
    )


def roberta(config: Config) -> EncoderSpec:
    """Return a RoBERTa; its head is gelu whatever the layers are."""
    return read_encoder(
        config, "roberta", vocab_size=50265, max_position_embeddings=512, head_activation="gelu"
    )


def xlm_roberta(config: Config) -> EncoderSpec:
    """Return an XLM-RoBERTa, or a CamemBERT: RoBERTas with other defaults."""
    spec = read_encoder(
        config, "roberta", vocab_size=30522, max_position_embeddings=512, head_activation="gelu"
    )
    return replace(spec, family=read_string(config, "model_type", ""))


camembert = xlm_roberta


def distilbert(config: Config) -> EncoderSpec:
    """Return a DistilBERT, by the names of its own fields."""
    names = {
        "hidden_size": "dim",
        "num_attention_heads": "n_heads",
        "num_hidden_layers": "n_layers",
        "intermediate_size": "hidden_dim",
        "hidden_act": "activation",
        "hidden_dropout_prob": "dropout",
        "attention_probs_dropout_prob": "attention_dropout",
    }
    config = {"num_hidden_layers": 6, **apply_aliases(config, **names)}
    activation = read_string(config, "hidden_act", "gelu")
    spec = read_encoder(
        config,
        "distilbert",
        vocab_size=30522,
        max_position_embeddings=512,
        head_activation=activation,
    )
    return replace(spec, type_vocab_size=0)


def read_encoder(
    config: Config,
    family: str,
    *,
    vocab_size: int,
    max_position_embeddings: int,
    head_activation: str,
) -> EncoderSpec:
    """Return the numbers of an encoder by BERT's names of fields."""
    for name in ("is_decoder", "add_cross_attention"):
        if read_flag(config, name, default=False):
            raise NotModelledError(f"{name} of {family}", field=name, modelled=[f"{name}: false"])
    if config.get("chunk_size_feed_forward"):
        raise NotModelledError(
            "chunk_size_feed_forward", field="chunk_size_feed_forward", modelled=["0"]
        )
    hidden, heads = (
        read_integer(config, "hidden_size", 768),
        read_integer(config, "num_attention_heads", 12),
    )
    return EncoderSpec(
        family=family,
        vocab_size=read_integer(config, "vocab_size", vocab_size),
        hidden_size=hidden,
        num_hidden_layers=read_integer(config, "num_hidden_layers", 12),
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=read_head_dim(config, hidden, heads),
        intermediate_size=read_integer(config, "intermediate_size", 3072),
        activation=read_string(config, "hidden_act", "gelu"),
        norm="layer",
        gated=False,
        tie_word_embeddings=read_flag(config, "tie_word_embeddings", default=True),
        attention_bias=True,
        attention_output_bias=True,
        mlp_bias=True,
        rotary=False,
        max_position_embeddings=read_integer(
            config, "max_position_embeddings", max_position_embeddings
        ),
        attention_dropout=read_fraction(config, "attention_probs_dropout_prob", 0.1),
        residual_dropout=read_fraction(config, "hidden_dropout_prob", 0.1),
        embedding_dropout=read_fraction(config, "hidden_dropout_prob", 0.1),
        type_vocab_size=read_integer(config, "type_vocab_size", 2),
        head_activation=head_activation,
    )


def build(spec: EncoderSpec) -> Architecture:
    """Return the tree of an encoder."""
    backbone = build_backbone(spec)
    if spec.head == Head.DEFAULT:
        return _add_masked_lm(backbone, spec)
    return put_encoder_head(backbone)


def build_backbone(spec: EncoderSpec) -> Architecture:
    """Return the tree of embeddings and layers; its head is a placeholder."""
    hidden, names = spec.hidden_size, LAYER_NAMES.get(spec.family, LAYER_NAMES[""])
    positions = Weight(
        "position_embeddings.weight", "embedding", (spec.max_position_embeddings, hidden)
    )
    types = (
        Weight("token_type_embeddings.weight", "embedding", (spec.type_vocab_size, hidden))
        if spec.type_vocab_size
        else None
    )
    embeddings = EncoderEmbeddings(
        positions=positions,
        types=types,
        norm=build_norm("embeddings.LayerNorm", hidden),
        dropout=spec.embedding_dropout,
        positions_per_token=spec.family in POSITIONS_PER_TOKEN,
        counts_labels=spec.head == Head.DEFAULT,
    )
    return replace(
        build_decoder(spec),
        position_embedding=positions,
        blocks=((_build_block(spec, names), spec.num_hidden_layers),),
        final_norm=None,
        stem=tuple(embeddings.weights()),
        buffer_bytes=INDEX_BYTES * spec.max_position_embeddings * (1 if types is None else 2),
        masks=(),
        embed=embeddings.embed,
        shifts_labels=False,
        upcasts_logits=False,
    )


def _add_masked_lm(backbone: Architecture, spec: EncoderSpec) -> Architecture:
    """Return the encoder with its masked-language-model head."""
    names = LAYER_NAMES.get(spec.family, LAYER_NAMES[""])
    transform = PredictionHeadTransform(
        dense=build_linear(f"head.{names[6]}", "other", spec.hidden_size, spec.hidden_size),
        activation=spec.head_activation,
        norm=build_norm("head.LayerNorm", spec.hidden_size),
    )
    # An untied head has a bias of its own, beside which the one that it is tied to is still there,
    # and unused.
    unused = (
        ()
        if spec.tie_word_embeddings or spec.family == "distilbert"
        else (Weight("head.bias", "other", (spec.vocab_size,)),)
    )
    return replace(
        backbone,
        head=replace(backbone.head, kind="other", bias=True),
        stem=(*backbone.stem, *transform.weights(), *unused),
        never_trained=frozenset(weight.name for weight in unused),
        outer_linears=(transform.dense,),
        finish_hidden=transform.record,
    )


def _build_block(spec: EncoderSpec, names: tuple[str, ...]) -> EncoderBlock:
    hidden, inner = spec.hidden_size, spec.intermediate_size
    return EncoderBlock(
        attention=Attention(
            projections=tuple(
                build_linear(f"attention.{name}", "attention", hidden, hidden) for name in names[:3]
            ),
            output=build_linear(f"attention.{names[3]}", "attention", hidden, hidden),
            num_heads=spec.num_attention_heads,
            num_kv_heads=spec.num_attention_heads,
            head_dim=spec.head_dim,
            rotary=False,
            upcast_softmax=False,
            causal=False,
            casts_back=False,
            dropout=spec.attention_dropout,
            output_dropout=0.0 if spec.family == "distilbert" else spec.residual_dropout,
        ),
        attention_norm=build_norm("attention.LayerNorm", hidden),
        up=build_linear(names[4], "mlp", hidden, inner),
        down=build_linear(names[5], "mlp", inner, hidden),
        activation=spec.activation,
        dropout=spec.residual_dropout,
        output_norm=build_norm("output.LayerNorm", hidden),
        names_inner=spec.family != "distilbert",
    )


def build_norm(name: str, size: int) -> Norm:
    """Return a layer norm."""
    return Norm(name=name, style="layer", size=size, bias=True)


def build_linear(name: str, kind: str, ins: int, outs: int) -> Linear:
    """Return a linear layer with a bias."""
    return Linear(name=name, kind=kind, in_features=ins, out_features=outs, bias=True)
