"""GPT-J and CodeGen: partial rotary positions, attention scores in fp32.

Every second element of a part of each head is rotated, and the head has a bias. Field names and
defaults are those of transformers 5.23 (``models/gptj``, ``models/codegen``). Whatever is asked
for, the library runs eager attention (but FlashAttention-2 for GPT-J, which is not modelled).
CodeGen rotates in fp32 whatever the weights are, and keeps query and key so.
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
from service.estimator.model.families.gpt.gptj_attention import GptjAttention
from service.estimator.model.modules.attention.manual import make_tensor
from service.estimator.model.modules.attention.returned_weights import (
    hold_previous_scores,
    return_weights,
)
from service.estimator.model.modules.mlp.feedforward import FeedForward
from service.estimator.model.recording import Recording
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import build_decoder
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import add, chain, dropout
from service.estimator.tape.ops.products import allocate_integers
from service.estimator.values.errors import InvalidConfigError

TABLE_BYTES = 4
"""The sinusoidal tables are buffers in fp32."""
CODEGEN_PARTITIONS = 4
"""CodeGen's fused projection is laid out for four devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GptjSpec(DecoderSpec):
    """Numbers of a GPT-J or CodeGen model."""

    rotary_dim: int


SPEC = GptjSpec


def gptj(config: Config) -> GptjSpec:
    """Return a GPT-J."""
    return _read(config, "gptj")


def codegen(config: Config) -> GptjSpec:
    """Return a CodeGen."""
    spec = _read(config, "codegen")
    if spec.num_attention_heads % CODEGEN_PARTITIONS:
        message = (
            f"n_head is {spec.num_attention_heads}; CodeGen's projection needs a multiple of "
            f"{CODEGEN_PARTITIONS}"
        )
        raise InvalidConfigError(message, field="n_head")
    return spec


def _read(config: Config, family: str) -> GptjSpec:
    config = apply_aliases(
        config, n_embd="hidden_size", n_head="num_attention_heads", n_layer="num_hidden_layers"
    )
    hidden, heads = read_integer(config, "n_embd", 4096), read_integer(config, "n_head", 16)
    dim, rotary = read_head_dim(config, hidden, heads), read_integer(config, "rotary_dim", 64)
    if rotary > dim:
        message = f"rotary_dim is {rotary}; a head has {dim} elements"
        raise InvalidConfigError(message, field="rotary_dim")
    return GptjSpec(
        family=family,
        vocab_size=read_integer(config, "vocab_size", 50400),
        hidden_size=hidden,
        num_hidden_layers=read_integer(config, "n_layer", 28),
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=dim,
        intermediate_size=read_integer(config, "n_inner", 4 * hidden),
        activation=read_string(config, "activation_function", "gelu_new"),
        norm="layer",
        gated=False,
        tie_word_embeddings=read_flag(config, "tie_word_embeddings", default=False),
        mlp_bias=True,
        fused_projections=family == "codegen",
        max_position_embeddings=read_integer(
            apply_aliases(config, n_positions="max_position_embeddings"), "n_positions", 2048
        ),
        attention_dropout=read_fraction(config, "attn_pdrop", 0.0),
        residual_dropout=read_fraction(config, "resid_pdrop", 0.0),
        embedding_dropout=read_fraction(config, "embd_pdrop", 0.0),
        rotary_dim=rotary,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GptjBlock:
    """Layer with both sublayers on the same norm (``GPTJBlock.forward``)."""

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

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the layer, which drops its input.

        The input is dropped at the end, when the loop over layers rebinds its name.
        """
        tape = ctx.tape
        previous_scores = hold_previous_scores(ctx, self.attention.num_heads)
        normed = ctx.norm(self.norm, x, scope)
        mixed, probabilities = self.attention.record(ctx, normed, scope)
        fed = self.feed_forward.record(ctx, normed, scope)
        y = chain(tape, add(tape, mixed, fed), lambda t, value: add(t, value, x))
        tape.free(fed, mixed, normed, x)
        return_weights(ctx, probabilities)
        tape.release(previous_scores)
        return y


def build(spec: GptjSpec) -> Architecture:
    """Return the tree of a GPT-J or a CodeGen."""
    plain = build_decoder(spec)
    tables = spec.max_position_embeddings * spec.rotary_dim * TABLE_BYTES

    def embed(ctx: Recording, tokens: Value) -> EmbeddingOutput:
        return _record_embedding(ctx, tokens, spec.embedding_dropout)

    return replace(
        plain,
        blocks=((_build_block(spec), spec.num_hidden_layers),),
        writes_out_attention=True,
        head=replace(plain.head, bias=True),
        rotary_tables=(),
        buffer_bytes=spec.num_hidden_layers * tables,
        layer_buffer_bytes=(tables,),
        masks=(),
        embed=embed,
    )


def _record_embedding(ctx: Recording, tokens: Value, probability: float) -> EmbeddingOutput:
    """Record the model's forward up to its first layer."""
    tape = ctx.tape
    passed = (
        allocate_integers(tape, ctx.shape.positions(1)),
        make_tensor(ctx, ctx.get_read_shape(None).mask(1), tokens.dtype),
    )
    if probability and tape.builds_graph:
        return EmbeddingOutput(
            x=dropout(tape, tokens, probability),
            x_is_local=False,
            names=(tokens,),
            layer_args=passed,
        )
    return EmbeddingOutput(x=tokens, layer_args=passed)


def _build_block(spec: GptjSpec) -> GptjBlock:
    hidden, inner = spec.hidden_size, spec.intermediate_size
    ins = (
        (("qkv_proj", 3 * hidden),)
        if spec.fused_projections
        else tuple((f"{name}_proj", hidden) for name in "qkv")
    )
    return GptjBlock(
        norm=Norm(name="ln_1", style="layer", size=hidden, bias=True),
        attention=GptjAttention(
            projections=tuple(
                _build_linear(f"attn.{name}", "attention", hidden, out) for name, out in ins
            ),
            output=_build_linear("attn.out_proj", "attention", hidden, hidden),
            num_heads=spec.num_attention_heads,
            rotary_dim=spec.rotary_dim,
            num_positions=spec.max_position_embeddings,
            dropout=spec.attention_dropout,
            output_dropout=spec.residual_dropout,
        ),
        feed_forward=FeedForward(
            up=_build_linear("mlp.fc_in", "mlp", hidden, inner, bias=True),
            down=_build_linear("mlp.fc_out", "mlp", inner, hidden, bias=True),
            activation=spec.activation,
            dropout=spec.residual_dropout,
        ),
    )


def _build_linear(name: str, kind: str, ins: int, outs: int, *, bias: bool = False) -> Linear:
    return Linear(name=name, kind=kind, in_features=ins, out_features=outs, bias=bias)
