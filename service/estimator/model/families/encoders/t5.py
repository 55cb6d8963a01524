"""T5 with its later recipes (1.1, FLAN), and mT5.

They have relative positions as biases, root-mean-square norms, and no other biases. Field names and
defaults are those of transformers 5.23 (``models/t5``, ``models/mt5``).
"""

from dataclasses import dataclass

from service.estimator.model.architecture import EmbeddingOutput
from service.estimator.model.config_reader import (
    Config,
    read_flag,
    read_fraction,
    read_integer,
    read_string,
)
from service.estimator.model.modules.attention.t5 import T5Attention
from service.estimator.model.modules.layers.t5 import T5FeedForward, T5Layer, normalise
from service.estimator.model.recording import Recording
from service.estimator.model.shared_inputs import get_shared_inputs
from service.estimator.model.trees.encoder_decoder import (
    WALKER,
    Encoder,
    EncoderDecoder,
    EncoderDecoderSpec,
    check_stacks,
)
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import chain, dropout
from service.estimator.tape.ops.products import allocate_integers, embedding
from service.estimator.values.errors import NotModelledError
from service.estimator.values.workload import Attention as Kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class T5Spec(EncoderDecoderSpec):
    """Numbers of a T5 model.

    ``num_buckets`` are the rows of each stack's table of position biases.
    """

    num_buckets: int = 32
    scales_output: bool = True


SPEC = T5Spec


def t5(config: Config) -> T5Spec:
    """Return a T5."""
    # A config that says that nothing is tied only turns the factor off: the tables are tied all the
    # same.
    return _read(config, "t5", scales_output=read_flag(config, "tie_word_embeddings", default=True))


def mt5(config: Config) -> T5Spec:
    """Return an mT5, whose tables are tied whatever its config says."""
    sizes = {
        "vocab_size": 250112,
        "d_ff": 1024,
        "num_layers": 8,
        "num_heads": 6,
        "feed_forward_proj": "gated-gelu",
    }
    return _read({**sizes, **config}, "mt5", scales_output=False)


def _read(config: Config, family: str, *, scales_output: bool) -> T5Spec:
    heads, layers = read_integer(config, "num_heads", 8), read_integer(config, "num_layers", 6)
    inner, (kind, _, activation) = (
        read_integer(config, "d_ff", 2048),
        read_string(config, "feed_forward_proj", "relu").rpartition("-"),
    )
    if kind not in {"", "gated"}:
        raise NotModelledError(
            f"feed_forward_proj {kind}", field="feed_forward_proj", modelled=["relu", "gated-gelu"]
        )
    rate = read_fraction(config, "dropout_rate", 0.1)
    return T5Spec(
        family=family,
        vocab_size=read_integer(config, "vocab_size", 32128),
        hidden_size=read_integer(config, "d_model", 512),
        num_hidden_layers=read_integer(config, "num_decoder_layers", layers),
        num_encoder_layers=layers,
        num_attention_heads=heads,
        encoder_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=read_integer(config, "d_kv", 64),
        intermediate_size=inner,
        encoder_intermediate_size=inner,
        # transformers reads gated-gelu as the tanh approximation that T5 1.1 was trained with.
        activation="gelu_new" if kind and activation == "gelu" else activation,
        gated=bool(kind),
        tie_word_embeddings=True,
        attention_dropout=rate,
        residual_dropout=rate,
        embedding_dropout=rate,
        activation_dropout=rate,
        num_buckets=read_integer(config, "relative_attention_num_buckets", 32),
        scales_output=scales_output,
    )


def build(spec: T5Spec) -> EncoderDecoder:
    """Return the tree of a T5."""
    check_stacks(spec)
    hidden = spec.hidden_size
    table = Weight("shared.weight", "embedding", (spec.vocab_size, hidden))
    norms = tuple(
        Norm(name=f"{stack}.final_layer_norm", style="rms", size=hidden)
        for stack in ("encoder", "decoder")
    )

    def inputs(ctx: Recording) -> Value:
        return allocate_integers(ctx.tape, ctx.shape.tokens(1))

    def embed_source(ctx: Recording, ids: Value) -> EmbeddingOutput:
        tokens = embedding(ctx.tape, ctx.parameter(table), ids, ctx.shape.tokens(hidden))
        ctx.require_input_grad(tokens)
        return _record_embedding(ctx, tokens, spec)

    def finish(norm: Norm, ctx: Recording, x: Value) -> Value:
        normed = normalise(ctx, norm, x, "")
        return chain(ctx.tape, normed, lambda t, y: dropout(t, y, spec.residual_dropout))

    return EncoderDecoder(
        spec=spec,
        embedding=table,
        position_embedding=None,
        blocks=_build_blocks(spec),
        final_norm=norms[1],
        head=Linear(
            name="lm_head", kind="lm_head", in_features=hidden, out_features=spec.vocab_size
        ),
        stem=tuple(norms[0].weights()),
        masks=(),
        walker=WALKER,
        embed=lambda ctx, tokens: _record_embedding(ctx, tokens, spec),
        encoder=Encoder(
            inputs=inputs, embed=embed_source, finish=lambda ctx, x: finish(norms[0], ctx, x)
        ),
        finish_decoder=lambda ctx, x: finish(norms[1], ctx, x),
        scales_output=spec.scales_output,
        biased=True,
        keeps_fp32="feed-forward output",
        shifts_labels=False,
        upcasts_logits=False,
    )


def _record_embedding(ctx: Recording, tokens: Value, spec: T5Spec) -> EmbeddingOutput:
    """Record ``T5Stack.forward`` up to its first layer."""
    x = dropout(ctx.tape, tokens, spec.embedding_dropout)
    return EmbeddingOutput(x=x, x_is_local=False, names=(tokens,), layer_args=_make_masks(ctx))


def _make_masks(ctx: Recording) -> tuple[Value, ...]:
    """Return the masks of a stack.

    They are of padding in the encoder and in cross-attention, and a causal one where eager
    attention adds it.
    """
    shared_inputs, eager = get_shared_inputs(ctx), ctx.settings.attention is Kernel.EAGER
    width = ctx.settings.dtype.bytes_per_element if eager else 1
    causal = shared_inputs.across is not None and eager
    if ctx.padded or causal:
        shared_inputs.masks["own"] = allocate_integers(
            ctx.tape, ctx.shape.mask(width), bytes_each=1
        )
    if shared_inputs.masked:
        shared_inputs.masks["across"] = allocate_integers(
            ctx.tape, shared_inputs.crossing.mask(width), bytes_each=1
        )
    return tuple(shared_inputs.masks.values())


def _build_blocks(spec: T5Spec) -> tuple[tuple[T5Layer, int], ...]:
    """Return the kinds of layers.

    The first layer of each stack has the table of its biases.
    """
    kinds = []
    for decodes, count in ((False, spec.num_encoder_layers), (True, spec.num_hidden_layers)):
        kinds += [
            (_build_layer(spec, decodes=decodes, first=True), 1),
            (_build_layer(spec, decodes=decodes, first=False), count - 1),
        ]
    return tuple((layer, count) for layer, count in kinds if count)


def _build_layer(spec: T5Spec, *, decodes: bool, first: bool) -> T5Layer:
    hidden, inner = spec.hidden_size, spec.intermediate_size
    kinds = 3 if decodes else 2
    return T5Layer(
        norms=tuple(
            Norm(name=f"layer.{index}.layer_norm", style="rms", size=hidden)
            for index in range(kinds)
        ),
        attention=_build_attention(spec, "layer.0.SelfAttention", decodes=decodes, first=first),
        cross_attention=_build_attention(
            spec, "layer.1.EncDecAttention", decodes=decodes, first=first, is_cross_attention=True
        )
        if decodes
        else None,
        feed_forward=T5FeedForward(
            up=_build_linear(
                "DenseReluDense.wi_0" if spec.gated else "DenseReluDense.wi", "mlp", hidden, inner
            ),
            gate=_build_linear("DenseReluDense.wi_1", "mlp", hidden, inner) if spec.gated else None,
            down=_build_linear("DenseReluDense.wo", "mlp", inner, hidden),
            activation=spec.activation,
            dropout=spec.activation_dropout,
        ),
        dropout=spec.residual_dropout,
    )


def _build_attention(
    spec: T5Spec, name: str, *, decodes: bool, first: bool, is_cross_attention: bool = False
) -> T5Attention:
    hidden, width = spec.hidden_size, spec.num_attention_heads * spec.head_dim
    bias = Weight(
        f"{name}.relative_attention_bias.weight",
        "embedding",
        (spec.num_buckets, spec.num_attention_heads),
    )
    return T5Attention(
        query=_build_linear(f"{name}.q", "attention", hidden, width),
        key=_build_linear(f"{name}.k", "attention", hidden, width),
        value=_build_linear(f"{name}.v", "attention", hidden, width),
        output=_build_linear(f"{name}.o", "attention", width, hidden),
        num_heads=spec.num_attention_heads,
        table=bias if first and not is_cross_attention else None,
        causal=decodes and not is_cross_attention,
        is_cross_attention=is_cross_attention,
        makes_bias=first,
        dropout=spec.attention_dropout,
    )


def _build_linear(name: str, kind: str, ins: int, outs: int) -> Linear:
    return Linear(name=name, kind=kind, in_features=ins, out_features=outs)
