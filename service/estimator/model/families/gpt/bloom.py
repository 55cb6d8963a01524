"""BLOOM: linear position biases, an embedding norm and a custom gelu.

Attention materialises its scores. Field names and defaults are those of transformers 5.23
(``models/bloom/configuration_bloom.py``). The library has no other attention for it than the eager
one, whatever is asked for.
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
)
from service.estimator.model.modules.attention.returned_weights import (
    hold_previous_scores,
    return_weights,
)
from service.estimator.model.recording import Recording
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import build_decoder
from service.estimator.model.weights.tensors import Linear, Norm, Weight, iterate_weights
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category
from service.estimator.tape.nodes import Value, count_bytes
from service.estimator.tape.ops.attention_kernels import add_mask, copy_if_slice
from service.estimator.tape.ops.elementwise import add, cast, chain, dropout, softmax
from service.estimator.tape.ops.products import batched_product, copy_contiguous
from service.estimator.tape.ops.views import apply_composite, narrow
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import NotModelledError

_GELU_FORWARD = "a b c d -c e -d f -b -e g -f h -g"
"""``x * 0.5 * (1.0 + tanh(0.797 * x * (1 + 0.044715 * x * x)))``, product by product."""
_GELU_BACKWARD = "b c d -c e -d f -b -e t -f p q r -q s u -s v -u w -r -v z -p -w i j -i k -z -j"
"""``bloom_gelu_back``: the tangent again, and the factor of the gradient."""


def bloom(config: Config) -> DecoderSpec:
    """Return a BLOOM."""
    for name in ("apply_residual_connection_post_layernorm", "slow_but_exact"):
        if read_flag(config, name, default=False):
            raise NotModelledError(f"{name} of bloom", field=name, modelled=[f"{name}: false"])
    config = apply_aliases(
        config, n_layer="num_hidden_layers", n_head="num_attention_heads", hidden_size="n_embed"
    )
    hidden, heads = read_integer(config, "hidden_size", 64), read_integer(config, "n_head", 8)
    return DecoderSpec(
        family="bloom",
        vocab_size=read_integer(config, "vocab_size", 250880),
        hidden_size=hidden,
        num_hidden_layers=read_integer(config, "n_layer", 2),
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=read_head_dim(config, hidden, heads),
        intermediate_size=4 * hidden,
        activation="gelu",
        norm="layer",
        gated=False,
        tie_word_embeddings=read_flag(config, "tie_word_embeddings", default=True),
        attention_bias=True,
        attention_output_bias=True,
        mlp_bias=True,
        fused_projections=True,
        rotary=False,
        attention_dropout=read_fraction(config, "attention_dropout", 0.0),
        residual_dropout=read_fraction(config, "hidden_dropout", 0.0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomBlock:
    """Layer whose sublayers add their residual themselves.

    (``BloomBlock.forward``.)
    """

    norms: tuple[Norm, Norm]
    fused: Linear
    dense: Linear
    up: Linear
    down: Linear
    num_heads: int
    attention_dropout: float
    dropout: float

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target, in order of use."""
        return (self.fused, self.dense, self.up, self.down)

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        return iterate_weights(*self.norms, *self.linears())

    def idle_parameters(self) -> int:
        """Return the parameters that one token does not use: none."""
        return 0

    @property
    def cache_elements_per_token(self) -> int:
        """Elements of key and value that a cache keeps for one token."""
        return 2 * self.dense.in_features

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the layer, which drops its input.

        The input is dropped at the end, when the loop over layers rebinds its name.
        """
        tape = ctx.tape
        previous_scores = hold_previous_scores(ctx, self.num_heads)
        normed = ctx.norm(self.norms[0], x, scope)
        attended, probabilities = self._attend(ctx, normed, x, scope)
        again = ctx.norm(self.norms[1], attended, scope)
        tape.free(normed)
        hidden = ctx.linear(self.up, again, scope)
        hidden = chain(tape, hidden, record_bloom_gelu)
        fed = ctx.linear(self.down, hidden, scope)
        y = chain(tape, dropout(tape, fed, self.dropout), lambda t, value: add(t, attended, value))
        tape.free(hidden, fed, again, attended, x)
        return_weights(ctx, probabilities)
        tape.release(previous_scores)
        return y

    def _attend(self, ctx: Recording, x: Value, residual: Value, scope: str) -> tuple[Value, Value]:
        """Return attention plus residual, and the returned probabilities."""
        tape, width = ctx.tape, self.dense.in_features
        fused = ctx.linear(self.fused, x, scope)
        query, key, value = (narrow(tape, fused, ctx.shape.tokens(width)) for _ in range(3))
        key, value = ctx.update_cache(key, value, width)
        if ctx.settings.batched:
            query, key, value = (chain(tape, part, copy_if_slice) for part in (query, key, value))
        scores = batched_product(tape, query, key, ctx.get_read_shape(None).scores(self.num_heads))
        weights = add_mask(tape, scores, ctx.settings.dtype)
        probabilities = chain(tape, cast(tape, weights, DType.FP32), softmax)
        probabilities = chain(tape, probabilities, lambda t, p: cast(t, p, query.dtype))
        probabilities = chain(
            tape, probabilities, lambda t, p: dropout(t, p, self.attention_dropout)
        )
        context = chain(
            tape, batched_product(tape, probabilities, value, query.numel), copy_contiguous
        )
        output = ctx.linear(self.dense, context, scope)
        y = chain(tape, dropout(tape, output, self.dropout), lambda t, part: add(t, residual, part))
        tape.free(output, context, weights, scores, query, key, value, fused)
        return y, probabilities


def record_bloom_gelu(tape: Tape, x: Value) -> Value:
    """Return BLOOM's gelu (``GeLUFunction``).

    It is an autograd function that keeps its input and composes both directions.
    """
    return apply_composite(tape, x, forward=_GELU_FORWARD, backward=_GELU_BACKWARD)


def build(spec: DecoderSpec) -> Architecture:
    """Return the tree of a BLOOM."""
    norm = Norm(name="word_embeddings_layernorm", style="layer", size=spec.hidden_size, bias=True)

    def embed(ctx: Recording, tokens: Value) -> EmbeddingOutput:
        return _record_embedding(ctx, tokens, norm, spec.num_attention_heads)

    return replace(
        build_decoder(spec),
        position_embedding=None,
        blocks=((_build_block(spec), spec.num_hidden_layers),),
        writes_out_attention=True,
        stem=tuple(norm.weights()),
        masks=(),
        embed=embed,
    )


def _record_embedding(ctx: Recording, tokens: Value, norm: Norm, num_heads: int) -> EmbeddingOutput:
    """Record ``BloomModel.forward`` up to its first layer.

    It makes position biases of every head and key, and a causal mask. The biases are in the dtype
    of the norm's output, the mask in that of the embedded tokens.
    """
    tape = ctx.tape
    x = ctx.norm(norm, tokens, "")
    reach = ctx.get_read_shape(None)
    passed = [
        Value(tape.allocate(Category.ACTIVATIONS, count_bytes(shape, dtype)), shape, dtype)
        for shape, dtype in ((reach.cached(num_heads), x.dtype), (reach.mask(1), tokens.dtype))
    ]
    return EmbeddingOutput(x=x, x_is_local=False, names=(tokens,), layer_args=tuple(passed))


def _build_block(spec: DecoderSpec) -> BloomBlock:
    hidden, inner = spec.hidden_size, spec.intermediate_size
    first, second = (
        Norm(name=name, style="layer", size=hidden, bias=True)
        for name in ("input_layernorm", "post_attention_layernorm")
    )
    return BloomBlock(
        norms=(first, second),
        fused=_build_linear("self_attention.query_key_value", "attention", hidden, 3 * hidden),
        dense=_build_linear("self_attention.dense", "attention", hidden, hidden),
        up=_build_linear("mlp.dense_h_to_4h", "mlp", hidden, inner),
        down=_build_linear("mlp.dense_4h_to_h", "mlp", inner, hidden),
        num_heads=spec.num_attention_heads,
        attention_dropout=spec.attention_dropout,
        dropout=spec.residual_dropout,
    )


def _build_linear(name: str, kind: str, ins: int, outs: int) -> Linear:
    return Linear(name=name, kind=kind, in_features=ins, out_features=outs, bias=True)
