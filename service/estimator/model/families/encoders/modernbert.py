"""ModernBERT, with the heads of ``model/heads``.

Layers have full or local attention, and rotary positions in fp32. Field names and defaults are
those of transformers 5.23 (``models/modernbert/configuration_modernbert.py``). Local layers get a
mask once the sequence fills half their window, so that flash attention has no kernel for them.
"""

from dataclasses import dataclass, replace

from service.estimator.model.architecture import Architecture, EmbeddingOutput
from service.estimator.model.config_reader import (
    Config,
    read_flag,
    read_fraction,
    read_head_dim,
    read_integer,
    read_string,
)
from service.estimator.model.families.encoders.modernbert_layer import ModernBertBlock
from service.estimator.model.heads.encoders import add_task
from service.estimator.model.heads.steps import make_dropout
from service.estimator.model.modules.attention.dispatch import AttentionConfig
from service.estimator.model.modules.layers.encoder import (
    PredictionHeadTransform,
    build_padding_mask,
    count_labels,
)
from service.estimator.model.modules.mlp.activations import ACTIVATIONS
from service.estimator.model.recording import Recording
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.task_head import NO_OUTPUT, Pooling
from service.estimator.model.trees.decoder import build_decoder, rotary_buffer_bytes
from service.estimator.model.weights.tensors import Linear, Norm
from service.estimator.tape import sizes
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import chain, dropout
from service.estimator.tape.ops.products import allocate_integers
from service.estimator.values.errors import InvalidConfigError, NotModelledError
from service.estimator.values.heads import Head
from service.estimator.values.workload import Attention as Kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class ModernBertSpec(DecoderSpec):
    """Numbers of a ModernBERT model.

    ``sliding_window`` is how far a local layer looks to each side.
    """

    full_layers: str
    """One letter per layer: ``f`` for full attention, ``l`` for local."""
    norm_bias: bool = False
    head_bias: bool = False
    decoder_bias: bool = True
    head_activation: str = "gelu"
    mlp_dropout: float = 0.0
    classifier_pooling: str = "cls"
    """What sequence classification reads: the first position or a mean."""


SPEC = ModernBertSpec
_POOLINGS = {"cls": Pooling.FIRST, "mean": Pooling.MEAN}


def modernbert(config: Config) -> ModernBertSpec:
    """Return a ModernBERT."""
    if read_flag(config, "sparse_prediction", default=False):
        raise NotModelledError(
            "sparse_prediction", field="sparse_prediction", modelled=["sparse_prediction: false"]
        )
    hidden, heads = (
        read_integer(config, "hidden_size", 768),
        read_integer(config, "num_attention_heads", 12),
    )
    layers, bias = (
        read_integer(config, "num_hidden_layers", 22),
        read_flag(config, "attention_bias", default=False),
    )
    return ModernBertSpec(
        family="modernbert",
        vocab_size=read_integer(config, "vocab_size", 50368),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=read_head_dim(config, hidden, heads),
        intermediate_size=read_integer(config, "intermediate_size", 1152),
        activation=read_string(config, "hidden_activation", "gelu"),
        norm="layer",
        tie_word_embeddings=read_flag(config, "tie_word_embeddings", default=True),
        attention_bias=bias,
        attention_output_bias=bias,
        mlp_bias=read_flag(config, "mlp_bias", default=False),
        fused_projections=True,
        max_position_embeddings=read_integer(config, "max_position_embeddings", 8192),
        sliding_window=read_integer(config, "local_attention", 128) // 2,
        attention_dropout=read_fraction(config, "attention_dropout", 0.0),
        embedding_dropout=read_fraction(config, "embedding_dropout", 0.0),
        mlp_dropout=read_fraction(config, "mlp_dropout", 0.0),
        full_layers=_read_layer_pattern(config, layers),
        norm_bias=read_flag(config, "norm_bias", default=False),
        head_bias=read_flag(config, "classifier_bias", default=False),
        decoder_bias=read_flag(config, "decoder_bias", default=True),
        head_activation=read_string(config, "classifier_activation", "gelu"),
        classifier_pooling=_read_pooling(config),
    )


def _read_pooling(config: Config) -> str:
    pooling = read_string(config, "classifier_pooling", "cls")
    if pooling not in _POOLINGS:
        message = f"classifier_pooling is {pooling!r}; it must be {' or '.join(_POOLINGS)}"
        raise InvalidConfigError(message, field="classifier_pooling")
    return pooling


def _read_layer_pattern(config: Config, num_layers: int) -> str:
    """Return one letter per layer, for full or local attention.

    It comes from ``layer_types``, or from how often a layer is global.
    """
    kinds = config.get("layer_types")
    if kinds is None:
        period = read_integer(config, "global_attn_every_n_layers", 3)
        return "".join("l" if index % period else "f" for index in range(num_layers))
    letters = {"full_attention": "f", "sliding_attention": "l"}
    if (
        not isinstance(kinds, list)
        or len(kinds) != num_layers
        or any(kind not in letters for kind in kinds)
    ):
        message = f"layer_types must name {num_layers} layers, each {' or '.join(letters)}"
        raise InvalidConfigError(message, field="layer_types")
    return "".join(letters[kind] for kind in kinds)


def build(spec: ModernBertSpec) -> Architecture:
    """Return the tree of a ModernBERT."""
    plain, norm = build_decoder(spec), _build_norm(spec, "embeddings.norm")
    kinds = [
        (index == 0, letter == "l")
        for index, letter in enumerate(spec.full_layers[: spec.num_hidden_layers])
    ]
    distinct = sorted(set(kinds), key=kinds.index)

    def embed(ctx: Recording, tokens: Value) -> EmbeddingOutput:
        return _record_embedding(ctx, tokens, norm, spec)

    backbone = replace(
        plain,
        blocks=tuple(
            (_build_block(spec, first=first, local=local), kinds.count((first, local)))
            for first, local in distinct
        ),
        order=tuple(distinct.index(kind) for kind in kinds),
        final_norm=_build_norm(spec, "final_norm"),
        stem=tuple(norm.weights()),
        rotary_tables=(spec.head_dim,) * 2 * len(set(spec.full_layers)),
        buffer_bytes=len(set(spec.full_layers)) * rotary_buffer_bytes(spec.head_dim),
        masks=(),
        embed=embed,
        shifts_labels=False,
    )
    return _add_head(backbone, spec)


def _add_head(backbone: Architecture, spec: ModernBertSpec) -> Architecture:
    """Return the encoder with its head; all tasks share its first layers."""
    transform = PredictionHeadTransform(
        dense=_build_linear(
            "head.dense", "other", spec.hidden_size, spec.hidden_size, bias=spec.head_bias
        ),
        activation=spec.head_activation,
        norm=_build_norm(spec, "head.norm"),
    )
    if spec.head == Head.DEFAULT:
        return replace(
            backbone,
            head=replace(backbone.head, kind="other", bias=spec.decoder_bias),
            stem=(*backbone.stem, *transform.weights()),
            outer_linears=(transform.dense,),
            finish_hidden=transform.record,
        )
    if spec.head == Head.NONE:
        return add_task(backbone, (), NO_OUTPUT, pooling=Pooling.ALL)
    steps = (
        transform.dense,
        ACTIVATIONS[spec.head_activation],
        transform.norm,
        make_dropout(spec.head_dropout),
    )
    output = _build_linear("classifier", "other", spec.hidden_size, spec.num_labels, bias=True)
    pools = spec.head == Head.SEQUENCE_CLASSIFICATION
    pooling = _POOLINGS[spec.classifier_pooling] if pools else Pooling.ALL
    return add_task(backbone, steps, output, pooling=pooling)


def _record_embedding(
    ctx: Recording, tokens: Value, norm: Norm, spec: ModernBertSpec
) -> EmbeddingOutput:
    """Record ``ModernBertModel.forward`` up to its first layer."""
    tape = ctx.tape
    if spec.head == Head.DEFAULT:
        count_labels(ctx)
    positions = allocate_integers(tape, ctx.shape.positions(1))
    normed = chain(tape, tokens, lambda _, value: ctx.norm(norm, value, ""))
    x = chain(tape, normed, lambda t, value: dropout(t, value, spec.embedding_dropout))
    width = x.dtype.bytes_per_element if ctx.settings.attention is Kernel.EAGER else 1
    shared = ctx.settings.attention is not Kernel.EAGER and not ctx.padded
    shape = ctx.shape.shared_mask(1) if shared else ctx.shape.mask(width)
    local = allocate_integers(
        tape, shape if ctx.has_mask(spec.sliding_window) else sizes.ZERO, bytes_each=1
    )
    return EmbeddingOutput(
        x=x,
        names=(positions,),
        layer_args=build_padding_mask(ctx, x),
        masks=((spec.sliding_window, local),),
    )


def _build_block(spec: ModernBertSpec, *, first: bool, local: bool) -> ModernBertBlock:
    hidden, inner = spec.hidden_size, spec.intermediate_size
    return ModernBertBlock(
        attention_norm=None if first else _build_norm(spec, "attn_norm"),
        fused=_build_linear("attn.Wqkv", "attention", hidden, 3 * hidden, bias=spec.attention_bias),
        output=_build_linear("attn.Wo", "attention", hidden, hidden, bias=spec.attention_bias),
        attention_config=AttentionConfig(
            num_heads=spec.num_attention_heads,
            num_kv_heads=spec.num_attention_heads,
            dropout=spec.attention_dropout,
            causal=False,
            sliding_window=spec.sliding_window if local else None,
        ),
        feed_forward_norm=_build_norm(spec, "mlp_norm"),
        up=_build_linear("mlp.Wi", "mlp", hidden, 2 * inner, bias=spec.mlp_bias),
        down=_build_linear("mlp.Wo", "mlp", inner, hidden, bias=spec.mlp_bias),
        activation=spec.activation,
        mlp_dropout=spec.mlp_dropout,
    )


def _build_norm(spec: ModernBertSpec, name: str) -> Norm:
    return Norm(name=name, style="layer", size=spec.hidden_size, bias=spec.norm_bias)


def _build_linear(name: str, kind: str, ins: int, outs: int, *, bias: bool) -> Linear:
    return Linear(name=name, kind=kind, in_features=ins, out_features=outs, bias=bias)
