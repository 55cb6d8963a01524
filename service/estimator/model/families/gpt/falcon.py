"""Falcon: attention and feed-forward side by side, one or a few key/value heads, a causal mask that every layer converts.

Field names and defaults are those of transformers 5.23 (``models/falcon/configuration_falcon.py``). The new architecture
(40b) expands its keys and values to all heads before anything else, its cache too.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from service.estimator.model.architecture import Architecture, Embedded
from service.estimator.model.config_reader import Config, flag, head_dim, integer, number, word
from service.estimator.model.modules.attention.dispatch import Scoring, attend_masked, heads_of
from service.estimator.model.modules.attention.manual import add_in_fp32
from service.estimator.model.modules.attention.returned_weights import scores_of_previous_layer, weights_named
from service.estimator.model.modules.mlp.feedforward import FeedForward
from service.estimator.model.recording import Recording
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import build_decoder
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.attention_kernels import repeated
from service.estimator.tape.ops.elementwise import add, add_scalar, chain, dropout, rotate, softmax
from service.estimator.tape.ops.products import autocast_input, batched_product, copy_of, integers
from service.estimator.tape.ops.views import add_in_place, indexed, narrow, scale_in_place
from service.estimator.values.errors import InvalidConfigError, NotModelledError
from service.estimator.values.workload import Attention as Kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class FalconSpec(DecoderSpec):
    """A Falcon; ``num_key_value_heads`` are those of the projection."""

    expands_heads: bool = False
    num_norms: int = 1


SPEC = FalconSpec


def falcon(config: Config) -> FalconSpec:
    """Return a Falcon with rotary positions."""
    for name, modelled in (("alibi", False), ("bias", False)):
        if flag(config, name, default=False) is not modelled:
            raise NotModelledError(f"{name} of falcon", field=name, modelled=[f"{name}: false"])
    new = flag(config, "new_decoder_architecture", default=False)
    if not new and not flag(config, "parallel_attn", default=True):
        raise NotModelledError("parallel_attn: false of falcon", field="parallel_attn", modelled=["parallel_attn: true"])
    hidden, heads = integer(config, "hidden_size", 4544), integer(config, "num_attention_heads", 71)
    norms = integer(config, "num_ln_in_parallel_attn", 2 if new else 1)
    if norms not in ({1, 2} if new else {1}):
        message = f"num_ln_in_parallel_attn is {norms}; it must be 1, or 2 with new_decoder_architecture"
        raise InvalidConfigError(message, field="num_ln_in_parallel_attn")
    return FalconSpec(
        family="falcon",
        vocab_size=integer(config, "vocab_size", 65024),
        hidden_size=hidden,
        num_hidden_layers=integer(config, "num_hidden_layers", 32),
        num_attention_heads=heads,
        num_key_value_heads=_key_value_heads(config, heads, new=new),
        head_dim=head_dim(config, hidden, heads),
        intermediate_size=integer(config, "ffn_hidden_size", 4 * hidden),
        activation=word(config, "activation", "gelu"),
        norm="layer",
        gated=False,
        tie_word_embeddings=flag(config, "tie_word_embeddings", default=True),
        fused_projections=True,
        max_position_embeddings=integer(config, "max_position_embeddings", 2048),
        attention_dropout=number(config, "attention_dropout", 0.0),
        residual_dropout=number(config, "hidden_dropout", 0.0),
        expands_heads=new,
        num_norms=norms,
    )


def _key_value_heads(config: Config, heads: int, *, new: bool) -> int:
    if new:
        return integer(config, "num_kv_heads", heads)
    return 1 if flag(config, "multi_query", default=True) else heads


@dataclass(frozen=True, slots=True, kw_only=True)
class FalconAttention:
    """Attention over one fused projection (``FalconAttention.forward``)."""

    fused: Linear
    output: Linear
    num_heads: int
    num_kv_heads: int
    head_dim: int
    expands: bool

    @property
    def num_read_heads(self) -> int:
        """Heads of key and value as attention, and the cache, see them."""
        return self.num_heads if self.expands else self.num_kv_heads

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the attention; ``x`` stays with the caller."""
        tape = run.tape
        fused = run.linear(self.fused, x, scope)
        query, key, value = self._expanded(run, fused) if self.expands else self._parted(run, fused)
        rotated = rotate(tape, query, run.table_dtype), rotate(tape, key, run.table_dtype)
        tape.free(query, key)
        query = rotated[0]
        key, value = run.cached(rotated[1], value, self.num_read_heads * self.head_dim)
        how = Scoring(num_heads=self.num_heads, num_kv_heads=self.num_read_heads, upcast=False)
        read = _written_out if run.attention is Kernel.EAGER else attend_masked
        mixed = read(run, query, key, value, how)
        result = run.linear(self.output, mixed, scope)
        tape.free(mixed, query, key, value, fused)
        return result

    def _parted(self, run: Recording, fused: Value) -> tuple[Value, Value, Value]:
        """Return the query as a view; a list of indices copies key and value out, one head for each."""
        tape, tokens = run.tape, run.extent.tokens
        query = narrow(tape, fused, tokens(self.num_heads * self.head_dim))
        part = tokens(self.num_kv_heads * self.head_dim)
        if self.num_kv_heads == self.num_heads:
            return query, narrow(tape, fused, part), narrow(tape, fused, part)
        return query, indexed(tape, fused, part), indexed(tape, fused, part)

    def _expanded(self, run: Recording, fused: Value) -> tuple[Value, Value, Value]:
        """Return query, key and value with all heads, flattened into copies."""
        tape, whole = run.tape, run.extent.tokens(self.num_heads * self.head_dim)
        part = run.extent.tokens(self.num_kv_heads * self.head_dim)
        views = narrow(tape, fused, whole), indexed(tape, fused, part), indexed(tape, fused, part)
        copies = [copy_of(tape, view, numel=whole) for view in views]
        tape.free(*views)
        return copies[0], copies[1], copies[2]


def _written_out(run: Recording, query: Value, key: Value, value: Value, how: Scoring) -> Value:
    """Return eager attention: scores divided in place, a mask added, probabilities handed out; an only head expands late."""
    tape, heads = run.tape, heads_of(run, how)
    q, k, v = (autocast_input(tape, part) for part in (query, key, value))
    side = repeated(tape, k, heads)
    scores = chain(tape, batched_product(tape, q, side, heads.scores), scale_in_place)
    tape.free(side)
    probabilities = chain(tape, add_in_fp32(tape, scores) if tape.autocast else add_scalar(tape, scores), softmax)
    tape.free(scores)
    weights, side = autocast_input(tape, probabilities), repeated(tape, v, heads)
    mixed = batched_product(tape, weights, side, query.numel)
    tape.free(weights, side, q, k, v)
    run.leave(probabilities)
    return chain(tape, mixed, copy_of)


@dataclass(frozen=True, slots=True, kw_only=True)
class FalconBlock:
    """A layer whose feed-forward output takes attention's in place (``FalconDecoderLayer.forward``)."""

    norms: tuple[Norm, ...]
    attention: FalconAttention
    feed_forward: FeedForward
    dropout: float

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target, in order of use."""
        return (self.attention.fused, self.attention.output, *self.feed_forward.linears())

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        for norm in self.norms:
            yield from norm.weights()
        for layer in self.linears():
            yield from layer.weights()

    def idle_parameters(self) -> int:
        """Return the parameters that one token does not use: none."""
        return 0

    @property
    def cache_elements_per_token(self) -> int:
        """Elements of key and value that a cache keeps for one token."""
        return 2 * self.attention.num_read_heads * self.attention.head_dim

    @property
    def projected_elements_per_token(self) -> int:
        """Elements that a serving engine keeps: it expands no heads (vLLM, ``falcon.py``; llama.cpp, ``n_head_kv``)."""
        return 2 * self.attention.num_kv_heads * self.attention.head_dim

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the layer; its input is dropped at its end, when the loop over layers rebinds its name."""
        tape = run.tape
        before = scores_of_previous_layer(run, self.attention.num_heads) if run.attention is Kernel.EAGER else None
        with weights_named(run):
            normed = [run.norm(norm, x, scope) for norm in self.norms]
            mixed = self.attention.record(run, normed[0], scope)
            fed = self.feed_forward.record(run, normed[-1], scope)
            summed = chain(tape, fed, lambda t, value: add_in_place(t, value, mixed))
            dropped = dropout(tape, summed, self.dropout)
            y = add(tape, x, dropped)
            tape.free(dropped, summed, mixed, *normed, x)
        if before is not None:
            tape.release(before)
        return y


def build(spec: FalconSpec) -> Architecture:
    """Return the tree of a Falcon."""
    return replace(
        build_decoder(spec), blocks=((_block(spec), spec.num_hidden_layers),), masks=(), always_masked=True, embed=_embedded
    )


def _embedded(run: Recording, tokens: Value) -> Embedded:
    """Record ``FalconModel.forward`` up to its first layer: the mask is made even where a kernel would not need it."""
    positions = integers(run.tape, run.extent.positions(1))
    eager, reach = run.attention is Kernel.EAGER, run.reach(None)
    boolean = reach.mask(1) if run.padded else reach.shared_mask(1)
    shape = reach.mask(tokens.dtype.bytes_per_element) if eager else boolean
    return Embedded(x=tokens, passed=(positions, integers(run.tape, shape, bytes_each=1)))


def _block(spec: FalconSpec) -> FalconBlock:
    hidden, inner = spec.hidden_size, spec.intermediate_size
    names = ("ln_attn", "ln_mlp") if spec.num_norms > 1 else ("input_layernorm",)
    fused = (spec.num_attention_heads + 2 * spec.num_key_value_heads) * spec.head_dim
    return FalconBlock(
        norms=tuple(Norm(name=name, style="layer", size=hidden, bias=True) for name in names),
        attention=FalconAttention(
            fused=_linear("self_attention.query_key_value", "attention", hidden, fused),
            output=_linear("self_attention.dense", "attention", hidden, hidden),
            num_heads=spec.num_attention_heads,
            num_kv_heads=spec.num_key_value_heads,
            head_dim=spec.head_dim,
            expands=spec.expands_heads,
        ),
        feed_forward=FeedForward(
            up=_linear("mlp.dense_h_to_4h", "mlp", hidden, inner),
            down=_linear("mlp.dense_4h_to_h", "mlp", inner, hidden),
            activation=spec.activation,
        ),
        dropout=spec.residual_dropout,
    )


def _linear(name: str, kind: str, ins: int, outs: int) -> Linear:
    return Linear(name=name, kind=kind, in_features=ins, out_features=outs, viewed=True)  # FalconLinear: input @ weight.T
