"""Falcon: parallel attention and feed-forward, few key/value heads.

There are one or a few key/value heads, and a causal mask that every layer converts. Field names and
defaults are those of transformers 5.23 (``models/falcon/configuration_falcon.py``). The new
architecture (40b) expands its keys and values to all heads before anything else, its cache too.
"""

from collections.abc import Iterator
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
from service.estimator.model.families.gpt.falcon_attention import FalconAttention
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
from service.estimator.tape.ops.products import allocate_integers
from service.estimator.tape.ops.views import add_in_place
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
        if read_flag(config, name, default=False) is not modelled:
            raise NotModelledError(f"{name} of falcon", field=name, modelled=[f"{name}: false"])
    new = read_flag(config, "new_decoder_architecture", default=False)
    if not new and not read_flag(config, "parallel_attn", default=True):
        raise NotModelledError(
            "parallel_attn: false of falcon",
            field="parallel_attn",
            modelled=["parallel_attn: true"],
        )
    hidden, heads = (
        read_integer(config, "hidden_size", 4544),
        read_integer(config, "num_attention_heads", 71),
    )
    norms = read_integer(config, "num_ln_in_parallel_attn", 2 if new else 1)
    if norms not in ({1, 2} if new else {1}):
        message = (
            f"num_ln_in_parallel_attn is {norms}; it must be 1, or 2 with new_decoder_architecture"
        )
        raise InvalidConfigError(message, field="num_ln_in_parallel_attn")
    return FalconSpec(
        family="falcon",
        vocab_size=read_integer(config, "vocab_size", 65024),
        hidden_size=hidden,
        num_hidden_layers=read_integer(config, "num_hidden_layers", 32),
        num_attention_heads=heads,
        num_key_value_heads=_count_key_value_heads(config, heads, new=new),
        head_dim=read_head_dim(config, hidden, heads),
        intermediate_size=read_integer(config, "ffn_hidden_size", 4 * hidden),
        activation=read_string(config, "activation", "gelu"),
        norm="layer",
        gated=False,
        tie_word_embeddings=read_flag(config, "tie_word_embeddings", default=True),
        fused_projections=True,
        max_position_embeddings=read_integer(config, "max_position_embeddings", 2048),
        attention_dropout=read_fraction(config, "attention_dropout", 0.0),
        residual_dropout=read_fraction(config, "hidden_dropout", 0.0),
        expands_heads=new,
        num_norms=norms,
    )


def _count_key_value_heads(config: Config, heads: int, *, new: bool) -> int:
    if new:
        return read_integer(config, "num_kv_heads", heads)
    return 1 if read_flag(config, "multi_query", default=True) else heads


@dataclass(frozen=True, slots=True, kw_only=True)
class FalconBlock:
    """Layer that adds feed-forward and attention outputs in place.

    (``FalconDecoderLayer.forward``.)
    """

    norms: tuple[Norm, ...]
    attention: FalconAttention
    feed_forward: FeedForward
    dropout: float

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target, in order of use."""
        return (self.attention.fused, self.attention.output, *self.feed_forward.linears())

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        return iterate_weights(*self.norms, *self.linears())

    def idle_parameters(self) -> int:
        """Return the parameters that one token does not use: none."""
        return 0

    @property
    def cache_elements_per_token(self) -> int:
        """Elements of key and value that a cache keeps for one token."""
        return 2 * self.attention.num_read_heads * self.attention.head_dim

    @property
    def projected_elements_per_token(self) -> int:
        """Cache elements of one token in a serving engine.

        An engine expands no heads (vLLM, ``falcon.py``; llama.cpp, ``n_head_kv``).
        """
        return 2 * self.attention.num_kv_heads * self.attention.head_dim

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the layer, which drops its input.

        The input is dropped at the end, when the loop over layers rebinds its name.
        """
        tape = ctx.tape
        previous_scores = (
            hold_previous_scores(ctx, self.attention.num_heads)
            if ctx.settings.attention is Kernel.EAGER
            else None
        )
        normed = [ctx.norm(norm, x, scope) for norm in self.norms]
        mixed, weights = self.attention.record(ctx, normed[0], scope)
        fed = self.feed_forward.record(ctx, normed[-1], scope)
        summed = chain(tape, fed, lambda t, value: add_in_place(t, value, mixed))
        dropped = dropout(tape, summed, self.dropout)
        y = add(tape, x, dropped)
        tape.free(dropped, summed, mixed, *normed, x)
        if weights is not None:
            return_weights(ctx, weights)
        if previous_scores is not None:
            tape.release(previous_scores)
        return y


def build(spec: FalconSpec) -> Architecture:
    """Return the tree of a Falcon."""
    return replace(
        build_decoder(spec),
        blocks=((_build_block(spec), spec.num_hidden_layers),),
        masks=(),
        always_masked=True,
        embed=_record_embedding,
    )


def _record_embedding(ctx: Recording, tokens: Value) -> EmbeddingOutput:
    """Record ``FalconModel.forward`` up to its first layer.

    The mask is made even where a kernel would not need it.
    """
    positions = allocate_integers(ctx.tape, ctx.shape.positions(1))
    eager, reach = ctx.settings.attention is Kernel.EAGER, ctx.get_read_shape(None)
    boolean = reach.mask(1) if ctx.padded else reach.shared_mask(1)
    shape = reach.mask(tokens.dtype.bytes_per_element) if eager else boolean
    return EmbeddingOutput(
        x=tokens, layer_args=(positions, allocate_integers(ctx.tape, shape, bytes_each=1))
    )


def _build_block(spec: FalconSpec) -> FalconBlock:
    hidden, inner = spec.hidden_size, spec.intermediate_size
    names = ("ln_attn", "ln_mlp") if spec.num_norms > 1 else ("input_layernorm",)
    fused = (spec.num_attention_heads + 2 * spec.num_key_value_heads) * spec.head_dim
    return FalconBlock(
        norms=tuple(Norm(name=name, style="layer", size=hidden, bias=True) for name in names),
        attention=FalconAttention(
            fused=_build_linear("self_attention.query_key_value", "attention", hidden, fused),
            output=_build_linear("self_attention.dense", "attention", hidden, hidden),
            num_heads=spec.num_attention_heads,
            num_kv_heads=spec.num_key_value_heads,
            head_dim=spec.head_dim,
            expands=spec.expands_heads,
        ),
        feed_forward=FeedForward(
            up=_build_linear("mlp.dense_h_to_4h", "mlp", hidden, inner),
            down=_build_linear("mlp.dense_4h_to_h", "mlp", inner, hidden),
            activation=spec.activation,
        ),
        dropout=spec.residual_dropout,
    )


def _build_linear(name: str, kind: str, ins: int, outs: int) -> Linear:
    return Linear(
        name=name, kind=kind, in_features=ins, out_features=outs, viewed=True
    )  # FalconLinear: input @ weight.T
