"""OPT: learned positions for every token, a query scaled before attention, relu, dropout; 350m norms after each half.

Field names and defaults are those of transformers 5.23 (``models/opt/configuration_opt.py``).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from service.estimator.model.architecture import Architecture, Embedded
from service.estimator.model.config_reader import Config, flag, head_dim, integer, number, word
from service.estimator.model.modules.attention.projections import Attention
from service.estimator.model.modules.attention.returned_weights import weights_named
from service.estimator.model.modules.mlp.feedforward import ACTIVATIONS
from service.estimator.model.recording import Recording
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import build_decoder
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.ledger import Category
from service.estimator.tape.nodes import Value, bytes_of
from service.estimator.tape.ops.elementwise import add, chain, dropout
from service.estimator.tape.ops.products import embedding, integers
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import NotModelledError

POSITION_OFFSET = 2
"""Rows of the position table before the first position (``OPTLearnedPositionalEmbedding``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptSpec(DecoderSpec):
    """An OPT."""

    embedding_size: int
    norm_first: bool = True
    final_norm: bool = True


SPEC = OptSpec


def opt(config: Config) -> OptSpec:
    """Return an OPT."""
    if not flag(config, "layer_norm_elementwise_affine", default=True):
        what = "layer_norm_elementwise_affine: false of opt"
        raise NotModelledError(what, field="layer_norm_elementwise_affine", modelled=["true"])
    if number(config, "layerdrop", 0.0):
        raise NotModelledError("layerdrop of opt", field="layerdrop", modelled=["0"])
    hidden, heads = integer(config, "hidden_size", 768), integer(config, "num_attention_heads", 12)
    bias, first = flag(config, "enable_bias", default=True), flag(config, "do_layer_norm_before", default=True)
    return OptSpec(
        family="opt",
        vocab_size=integer(config, "vocab_size", 50272),
        hidden_size=hidden,
        num_hidden_layers=integer(config, "num_hidden_layers", 12),
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=head_dim(config, hidden, heads),
        intermediate_size=integer(config, "ffn_dim", 3072),
        activation=word(config, "activation_function", "relu"),
        norm="layer",
        gated=False,
        tie_word_embeddings=flag(config, "tie_word_embeddings", default=True),
        attention_bias=bias,
        attention_output_bias=bias,
        mlp_bias=bias,
        rotary=False,
        max_position_embeddings=integer(config, "max_position_embeddings", 2048),
        attention_dropout=number(config, "attention_dropout", 0.0),
        residual_dropout=number(config, "dropout", 0.1),
        embedding_size=integer(config, "word_embed_proj_dim", hidden),
        norm_first=first,
        final_norm=first and not flag(config, "_remove_final_layer_norm", default=False),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OptBlock:
    """A layer whose every step rebinds the name of its input (``OPTDecoderLayer.forward``)."""

    attention_norm: Norm
    attention: Attention
    feed_forward_norm: Norm
    up: Linear
    down: Linear
    activation: str
    dropout: float
    norm_first: bool

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target, in order of use."""
        return (*self.attention.linears(), self.up, self.down)

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        for part in (self.attention_norm, self.attention, self.feed_forward_norm, self.up, self.down):
            yield from part.weights()

    def idle_parameters(self) -> int:
        """Return the parameters that one token does not use: none."""
        return 0

    @property
    def cache_elements_per_token(self) -> int:
        """Elements of key and value that a cache keeps for one token."""
        return self.attention.cache_elements_per_token

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the layer; its input is dropped at its end, when the loop over layers rebinds its name."""
        tape = run.tape
        with weights_named(run):
            normed = run.norm(self.attention_norm, x, scope) if self.norm_first else tape.alias(x)
            mixed = chain(tape, normed, lambda _, value: self.attention.record(run, value, scope))
            middle = self._joined(run, x, mixed, self.attention_norm, scope)
            normed = run.norm(self.feed_forward_norm, middle, scope) if self.norm_first else tape.alias(middle)
            hidden = chain(tape, normed, lambda _, value: run.linear(self.up, value, scope))
            activated = chain(tape, hidden, ACTIVATIONS[self.activation])
            fed = chain(tape, activated, lambda _, value: run.linear(self.down, value, scope))
            fed = chain(tape, fed, lambda t, value: dropout(t, value, self.dropout))
            y = self._joined(run, middle, fed, self.feed_forward_norm, scope)
            tape.free(middle, x)
        return y

    def _joined(self, run: Recording, residual: Value, x: Value, norm: Norm, scope: str) -> Value:
        """Return the residual plus ``x``, which is dropped, normalised when norms come last."""
        summed = chain(run.tape, x, lambda t, value: add(t, residual, value))
        return summed if self.norm_first else chain(run.tape, summed, lambda _, value: run.norm(norm, value, scope))


def build(spec: OptSpec) -> Architecture:
    """Return the tree of an OPT."""
    plain = build_decoder(spec)
    hidden, narrow = spec.hidden_size, spec.embedding_size
    project_in = _linear("project_in", "other", narrow, hidden, bias=False) if narrow != hidden else None
    project_out = _linear("project_out", "other", hidden, narrow, bias=False) if narrow != hidden else None
    positions = Weight("embed_positions.weight", "embedding", (spec.max_position_embeddings + POSITION_OFFSET, hidden))

    def embed(run: Recording, tokens: Value) -> Embedded:
        return _embedded(run, tokens, positions, project_in)

    return replace(
        plain,
        embedding=Weight("embed_tokens.weight", "embedding", (spec.vocab_size, narrow)),
        position_embedding=positions,
        blocks=((_block(spec), spec.num_hidden_layers),),
        final_norm=plain.final_norm if spec.final_norm else None,
        head=replace(plain.head, in_features=narrow),
        stem=tuple(weight for layer in (project_in, project_out) if layer is not None for weight in layer.weights()),
        embed=embed,
        finish_hidden=(lambda run, x: run.linear(project_out, x, "")) if project_out is not None else None,
    )


def _embedded(run: Recording, tokens: Value, table: Weight, project_in: Linear | None) -> Embedded:
    """Record ``OPTDecoder.forward`` up to its first layer: positions are counted on a mask of ones for every token."""
    tape, hidden = run.tape, table.shape[1]
    ones = Value(
        tape.allocate(Category.ACTIVATIONS, bytes_of(run.extent.cached(1), DType.FP32)), run.extent.cached(1), DType.FP32
    )
    position_ids = integers(tape, run.extent.cached(1))
    shifted = integers(tape, run.extent.tokens(1))
    placed = chain(tape, shifted, lambda t, ids: embedding(t, run.parameter(table), ids, run.extent.tokens(hidden)))
    if project_in is not None:
        tokens = chain(tape, tokens, lambda _, value: run.linear(project_in, value, ""))
    x = add(tape, tokens, placed)
    return Embedded(x=x, named=False, names=(ones, tokens, placed), passed=(position_ids,))


def _block(spec: OptSpec) -> OptBlock:
    hidden, inner, bias = spec.hidden_size, spec.intermediate_size, spec.attention_bias
    return OptBlock(
        attention_norm=Norm(name="self_attn_layer_norm", style="layer", size=hidden, bias=True),
        attention=Attention(
            projections=tuple(
                _linear(f"self_attn.{name}_proj", "attention", hidden, hidden, bias=bias) for name in ("q", "k", "v")
            ),
            output=_linear("self_attn.out_proj", "attention", hidden, hidden, bias=spec.attention_output_bias),
            num_heads=spec.num_attention_heads,
            num_kv_heads=spec.num_attention_heads,
            head_dim=spec.head_dim,
            rotary=False,
            scaled_query=True,
            dropout=spec.attention_dropout,
            output_dropout=spec.residual_dropout,
        ),
        feed_forward_norm=Norm(name="final_layer_norm", style="layer", size=hidden, bias=True),
        up=_linear("fc1", "mlp", hidden, inner, bias=spec.mlp_bias),
        down=_linear("fc2", "mlp", inner, hidden, bias=spec.mlp_bias),
        activation=spec.activation,
        dropout=spec.residual_dropout,
        norm_first=spec.norm_first,
    )


def _linear(name: str, kind: str, ins: int, outs: int, *, bias: bool) -> Linear:
    return Linear(name=name, kind=kind, in_features=ins, out_features=outs, bias=bias)
