"""GPT-Neo: learned positions and attention written out by the library.

Every layer has a mask as a buffer. Field names and defaults are those of transformers 5.23
(``models/gpt_neo/configuration_gpt_neo.py``). Local layers mask more, and keep no less.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from service.estimator.model.architecture import Architecture, EmbeddingOutput
from service.estimator.model.config_reader import (
    Config,
    apply_aliases,
    read_flag,
    read_fraction,
    read_head_dim,
    read_integer,
    read_string,
)
from service.estimator.model.modules.attention.manual import attend_in_fp32, make_tensor
from service.estimator.model.modules.attention.returned_weights import (
    hold_previous_scores,
    return_weights,
)
from service.estimator.model.modules.mlp.feedforward import FeedForward
from service.estimator.model.recording import Recording
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import build_decoder
from service.estimator.model.weights.tensors import Linear, Norm, Weight, iterate_weights
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import add, chain, dropout
from service.estimator.tape.ops.products import (
    allocate_integers,
    copy_contiguous,
    embedding,
    view_heads,
)
from service.estimator.values.errors import InvalidConfigError


def gpt_neo(config: Config) -> DecoderSpec:
    """Return a GPT-Neo."""
    config = apply_aliases(config, num_layers="num_hidden_layers", num_heads="num_attention_heads")
    hidden, heads = read_integer(config, "hidden_size", 2048), read_integer(config, "num_heads", 16)
    layers = read_integer(config, "num_layers", 24)
    _check_attention_types(config, layers)
    return DecoderSpec(
        family="gpt_neo",
        vocab_size=read_integer(config, "vocab_size", 50257),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=read_head_dim(config, hidden, heads),
        intermediate_size=read_integer(config, "intermediate_size", 4 * hidden),
        activation=read_string(config, "activation_function", "gelu_new"),
        norm="layer",
        gated=False,
        tie_word_embeddings=read_flag(config, "tie_word_embeddings", default=True),
        attention_output_bias=True,
        mlp_bias=True,
        rotary=False,
        max_position_embeddings=read_integer(config, "max_position_embeddings", 2048),
        attention_dropout=read_fraction(config, "attention_dropout", 0.0),
        residual_dropout=read_fraction(config, "resid_dropout", 0.0),
        embedding_dropout=read_fraction(config, "embed_dropout", 0.0),
    )


def _check_attention_types(config: Config, num_layers: int) -> None:
    """Check that ``attention_types`` name every layer.

    Raises InvalidConfigError otherwise, as transformers does.
    """
    types = config.get("attention_types") or [[["global", "local"], 12]]
    try:
        named = sum(len(kinds) * times for kinds, times in types)  # type: ignore[attr-defined]  # a malformed one raises
    except (TypeError, ValueError):
        named = 0
    if named != num_layers:
        message = f"attention_types name {named} layers; num_layers is {num_layers}"
        raise InvalidConfigError(message, field="attention_types")


@dataclass(frozen=True, slots=True, kw_only=True)
class NeoBlock:
    """A layer (``GPTNeoBlock.forward``)."""

    norms: tuple[Norm, Norm]
    projections: tuple[Linear, ...]
    output: Linear
    feed_forward: FeedForward
    num_heads: int
    attention_dropout: float
    dropout: float

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target, in order of use."""
        return (*self.projections, self.output, *self.feed_forward.linears())

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        return iterate_weights(*self.norms, *self.linears())

    def idle_parameters(self) -> int:
        """Return the parameters that one token does not use: none."""
        return 0

    @property
    def cache_elements_per_token(self) -> int:
        """Elements of key and value that a cache keeps for one token."""
        return 2 * self.output.in_features

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the layer, which drops its input.

        The input is dropped at the end, when the loop over layers rebinds its name.
        """
        tape = ctx.tape
        previous_scores = hold_previous_scores(ctx, self.num_heads)
        normed = ctx.norm(self.norms[0], x, scope)
        mixed, probabilities = self._attend(ctx, normed, scope)
        middle = add(tape, mixed, x)
        tape.free(normed)
        normed = ctx.norm(self.norms[1], middle, scope)
        fed = self.feed_forward.record(ctx, normed, scope)
        y = add(tape, middle, fed)
        tape.free(fed, normed, middle, mixed, x)
        return_weights(ctx, probabilities)
        tape.release(previous_scores)
        return y

    def _attend(self, ctx: Recording, x: Value, scope: str) -> tuple[Value, Value]:
        tape = ctx.tape
        query, key, value = (
            view_heads(tape, ctx.linear(layer, x, scope)) for layer in self.projections
        )
        key, value = ctx.update_cache(key, value, self.output.in_features)
        mixed, probabilities = attend_in_fp32(
            ctx, (query, key, value), num_heads=self.num_heads, probability=self.attention_dropout
        )
        merged = chain(tape, mixed, copy_contiguous)
        result = chain(tape, merged, lambda _, part: ctx.linear(self.output, part, scope))
        tape.free(query, key, value)
        return chain(tape, result, lambda t, y: dropout(t, y, self.dropout)), probabilities


def build(spec: DecoderSpec) -> Architecture:
    """Return the tree of a GPT-Neo.

    Each layer has a byte for every pair of positions.
    """
    mask_bytes = spec.max_position_embeddings**2
    plain = build_decoder(spec)

    def embed(ctx: Recording, tokens: Value) -> EmbeddingOutput:
        return _record_embedding(ctx, tokens, spec, plain.position_embedding)

    return replace(
        plain,
        blocks=((_build_block(spec), spec.num_hidden_layers),),
        writes_out_attention=True,
        buffer_bytes=spec.num_hidden_layers * mask_bytes,
        layer_buffer_bytes=(mask_bytes,),
        masks=(),
        embed=embed,
    )


def _record_embedding(
    ctx: Recording, tokens: Value, spec: DecoderSpec, table: Weight | None
) -> EmbeddingOutput:
    """Record ``GPTNeoModel.forward`` up to its first layer.

    A mask is made beside those that the layers have.
    """
    assert table is not None  # noqa: S101 - learned positions, see gpt_neo
    tape, shape = ctx.tape, ctx.shape
    positions = allocate_integers(tape, shape.positions(1))
    mask = make_tensor(ctx, ctx.get_read_shape(None).mask(1), tokens.dtype)
    placed = embedding(tape, ctx.parameter(table), positions, shape.positions(spec.hidden_size))
    x = chain(
        tape, add(tape, tokens, placed), lambda t, value: dropout(t, value, spec.embedding_dropout)
    )
    return EmbeddingOutput(
        x=x, x_is_local=False, names=(tokens, placed, positions), layer_args=(mask,)
    )


def _build_block(spec: DecoderSpec) -> NeoBlock:
    hidden, inner = spec.hidden_size, spec.intermediate_size
    first, second = (
        Norm(name=name, style="layer", size=hidden, bias=True) for name in ("ln_1", "ln_2")
    )
    return NeoBlock(
        norms=(first, second),
        projections=tuple(
            _build_linear(f"attn.attention.{name}_proj", "attention", hidden, hidden)
            for name in "qkv"
        ),
        output=_build_linear("attn.attention.out_proj", "attention", hidden, hidden, bias=True),
        feed_forward=FeedForward(
            up=_build_linear("mlp.c_fc", "mlp", hidden, inner, bias=True),
            down=_build_linear("mlp.c_proj", "mlp", inner, hidden, bias=True),
            activation=spec.activation,
            dropout=spec.residual_dropout,
        ),
        num_heads=spec.num_attention_heads,
        attention_dropout=spec.attention_dropout,
        dropout=spec.residual_dropout,
    )


def _build_linear(name: str, kind: str, ins: int, outs: int, *, bias: bool = False) -> Linear:
    return Linear(name=name, kind=kind, in_features=ins, out_features=outs, bias=bias)
