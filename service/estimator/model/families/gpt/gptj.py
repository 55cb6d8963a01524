"""GPT-J and CodeGen: rotary positions on a part of each head, every second element; scores in fp32; a bias on the head.

Field names and defaults are those of transformers 5.23 (``models/gptj``, ``models/codegen``). Whatever is asked for, the
library runs eager attention (but FlashAttention-2 for GPT-J, which is not modelled). CodeGen rotates in fp32 whatever the
weights are, and keeps query and key so.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from service.estimator.model.architecture import Architecture, Embedded
from service.estimator.model.config_reader import Config, aliased, flag, head_dim, integer, number, word
from service.estimator.model.modules.attention.manual import attend_in_fp32, filled
from service.estimator.model.modules.attention.returned_weights import scores_of_previous_layer
from service.estimator.model.modules.mlp.feedforward import FeedForward
from service.estimator.model.recording import Recording
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import build_decoder
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape import sizes
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import add, cast, chain, dropout, rotate
from service.estimator.tape.ops.products import copy_of, integers
from service.estimator.tape.ops.views import concatenate, narrow
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidConfigError

TABLE_BYTES = 4
"""The sinusoidal tables are buffers in fp32."""
CODEGEN_PARTITIONS = 4
"""CodeGen's fused projection is laid out for four devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GptjSpec(DecoderSpec):
    """A GPT-J or a CodeGen."""

    rotary_dim: int


SPEC = GptjSpec


def gptj(config: Config) -> GptjSpec:
    """Return a GPT-J."""
    return _read(config, "gptj")


def codegen(config: Config) -> GptjSpec:
    """Return a CodeGen."""
    spec = _read(config, "codegen")
    if spec.num_attention_heads % CODEGEN_PARTITIONS:
        message = f"n_head is {spec.num_attention_heads}; CodeGen's projection needs a multiple of {CODEGEN_PARTITIONS}"
        raise InvalidConfigError(message, field="n_head")
    return spec


def _read(config: Config, family: str) -> GptjSpec:
    config = aliased(config, n_embd="hidden_size", n_head="num_attention_heads", n_layer="num_hidden_layers")
    hidden, heads = integer(config, "n_embd", 4096), integer(config, "n_head", 16)
    dim, rotary = head_dim(config, hidden, heads), integer(config, "rotary_dim", 64)
    if rotary > dim:
        message = f"rotary_dim is {rotary}; a head has {dim} elements"
        raise InvalidConfigError(message, field="rotary_dim")
    return GptjSpec(
        family=family,
        vocab_size=integer(config, "vocab_size", 50400),
        hidden_size=hidden,
        num_hidden_layers=integer(config, "n_layer", 28),
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=dim,
        intermediate_size=integer(config, "n_inner", 4 * hidden),
        activation=word(config, "activation_function", "gelu_new"),
        norm="layer",
        gated=False,
        tie_word_embeddings=flag(config, "tie_word_embeddings", default=False),
        mlp_bias=True,
        fused_projections=family == "codegen",
        max_position_embeddings=integer(aliased(config, n_positions="max_position_embeddings"), "n_positions", 2048),
        attention_dropout=number(config, "attn_pdrop", 0.0),
        residual_dropout=number(config, "resid_pdrop", 0.0),
        embedding_dropout=number(config, "embd_pdrop", 0.0),
        rotary_dim=rotary,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GptjAttention:
    """Attention of one layer; one projection means CodeGen's (``CodeGenAttention.forward``, ``GPTJAttention.forward``)."""

    projections: tuple[Linear, ...]
    output: Linear
    num_heads: int
    rotary_dim: int
    num_positions: int
    dropout: float
    output_dropout: float

    def record(self, run: Recording, x: Value, scope: str) -> tuple[Value, Value]:
        """Record attention; return its output and its probabilities. ``x`` stays with the caller."""
        tape, fused = run.tape, len(self.projections) == 1
        query, key, value, names = self._projected(run, x, scope)
        table, made = self._table(run, DType.FP32 if fused else key.dtype)
        names += [query, key, *made]
        key, query = (self._rotated(run, part, table, names) for part in (key, query))
        if fused and run.store is not None:
            key = chain(tape, key, lambda t, part: cast(t, part, x.dtype))
        key, value = run.cached(key, value, self.output.in_features)
        mixed, probabilities = attend_in_fp32(run, query, key, value, num_heads=self.num_heads, probability=self.dropout)
        merged = chain(tape, mixed, copy_of)
        result = chain(tape, merged, lambda _, part: run.linear(self.output, part, scope))
        result = chain(tape, result, lambda t, y: dropout(t, y, self.output_dropout))
        tape.free(query, key, value, *names)
        return result, probabilities

    def _projected(self, run: Recording, x: Value, scope: str) -> tuple[Value, Value, Value, list[Value]]:
        """Return query, key and value, and what has a name until attention is over; heads of a fused one are copied out."""
        tape = run.tape
        if len(self.projections) > 1:
            query, key, value = (run.linear(layer, x, scope) for layer in self.projections)
            return query, key, value, []
        fused = run.linear(self.projections[0], x, scope)
        views = [narrow(tape, fused, run.extent.tokens(self.output.in_features)) for _ in range(3)]
        query, key, value = (chain(tape, view, copy_of) for view in views)
        return query, key, value, [fused]

    def _table(self, run: Recording, dtype: DType) -> tuple[DType, list[Value]]:
        """Return the dtype of sine and cosine, and the tensors that they are gathered through."""
        elements = run.extent.positions(self.rotary_dim)
        if len(self.projections) == 1:
            return dtype, [filled(run, elements, dtype)]
        repeated = filled(run, sizes.constant(self.num_positions * self.rotary_dim), DType.FP32)
        indices = integers(run.tape, elements)
        gathered = chain(run.tape, filled(run, elements, DType.FP32), lambda t, sincos: cast(t, sincos, dtype))
        return dtype, [repeated, indices, gathered]

    def _rotated(self, run: Recording, x: Value, table: DType, names: list[Value]) -> Value:
        """Return the heads of ``x`` with their first part rotated, which gets a name; products keep tables of their own."""
        tape, part = run.tape, run.extent.tokens(self.num_heads * self.rotary_dim)
        turning, passing = narrow(tape, x, part), narrow(tape, x, sizes.subtract(x.numel, part))
        tables = tuple(filled(run, run.extent.positions(self.rotary_dim), table) for _ in range(2))
        turned = chain(tape, turning, lambda t, value: rotate(t, value, table, tables))
        y = concatenate(tape, (turned, passing))
        tape.free(passing, *tables)
        names.append(turned)
        return y


@dataclass(frozen=True, slots=True, kw_only=True)
class GptjBlock:
    """A layer with both halves on the same norm (``GPTJBlock.forward``)."""

    norm: Norm
    attention: GptjAttention
    feed_forward: FeedForward

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target, in order of use."""
        return (*self.attention.projections, self.attention.output, *self.feed_forward.linears())

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        yield from self.norm.weights()
        for layer in self.linears():
            yield from layer.weights()

    def idle_parameters(self) -> int:
        """Return the parameters that one token does not use: none."""
        return 0

    @property
    def cache_elements_per_token(self) -> int:
        """Elements of key and value that a cache keeps for one token."""
        return 2 * self.attention.output.in_features

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the layer; its input is dropped at its end, when the loop over layers rebinds its name."""
        tape = run.tape
        before = scores_of_previous_layer(run, self.attention.num_heads)
        normed = run.norm(self.norm, x, scope)
        mixed, probabilities = self.attention.record(run, normed, scope)
        fed = self.feed_forward.record(run, normed, scope)
        y = chain(tape, add(tape, mixed, fed), lambda t, value: add(t, value, x))
        tape.free(fed, mixed, probabilities, normed, x)
        tape.release(before)
        return y


def build(spec: GptjSpec) -> Architecture:
    """Return the tree of a GPT-J or a CodeGen."""
    plain = build_decoder(spec)
    tables = spec.max_position_embeddings * spec.rotary_dim * TABLE_BYTES

    def embed(run: Recording, tokens: Value) -> Embedded:
        return _embedded(run, tokens, spec.embedding_dropout)

    return replace(
        plain,
        blocks=((_block(spec), spec.num_hidden_layers),),
        writes_out_attention=True,
        head=replace(plain.head, bias=True),
        rotary_tables=(),
        buffer_bytes=spec.num_hidden_layers * tables,
        layer_buffer_bytes=(tables,),
        masks=(),
        embed=embed,
    )


def _embedded(run: Recording, tokens: Value, probability: float) -> Embedded:
    """Record the model's forward up to its first layer."""
    tape = run.tape
    passed = (integers(tape, run.extent.positions(1)), filled(run, run.reach(None).mask(1), tokens.dtype))
    if probability and tape.records:
        return Embedded(x=dropout(tape, tokens, probability), named=False, names=(tokens,), passed=passed)
    return Embedded(x=tokens, passed=passed)


def _block(spec: GptjSpec) -> GptjBlock:
    hidden, inner = spec.hidden_size, spec.intermediate_size
    ins = (("qkv_proj", 3 * hidden),) if spec.fused_projections else tuple((f"{name}_proj", hidden) for name in "qkv")
    return GptjBlock(
        norm=Norm(name="ln_1", style="layer", size=hidden, bias=True),
        attention=GptjAttention(
            projections=tuple(_linear(f"attn.{name}", "attention", hidden, out) for name, out in ins),
            output=_linear("attn.out_proj", "attention", hidden, hidden),
            num_heads=spec.num_attention_heads,
            rotary_dim=spec.rotary_dim,
            num_positions=spec.max_position_embeddings,
            dropout=spec.attention_dropout,
            output_dropout=spec.residual_dropout,
        ),
        feed_forward=FeedForward(
            up=_linear("mlp.fc_in", "mlp", hidden, inner, bias=True),
            down=_linear("mlp.fc_out", "mlp", inner, hidden, bias=True),
            activation=spec.activation,
            dropout=spec.residual_dropout,
        ),
    )


def _linear(name: str, kind: str, ins: int, outs: int, *, bias: bool = False) -> Linear:
    return Linear(name=name, kind=kind, in_features=ins, out_features=outs, bias=bias)
