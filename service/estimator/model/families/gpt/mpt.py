"""MPT: no biases, linear position biases, attention written out.

Norms have no shift; position biases are in fp32; the library writes the attention out itself. Field
names and defaults are those of transformers 5.23 (``models/mpt/configuration_mpt.py``).
"""

from collections.abc import Iterator, Mapping
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
from service.estimator.model.modules.attention.manual import add_in_fp32, make_tensor
from service.estimator.model.modules.attention.returned_weights import (
    hold_previous_scores,
    return_weights,
)
from service.estimator.model.modules.mlp.activations import ACTIVATIONS
from service.estimator.model.recording import Recording
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import build_decoder
from service.estimator.model.weights.tensors import Linear, Norm, Weight, iterate_weights
from service.estimator.tape import sizes
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.attention_kernels import copy_if_slice
from service.estimator.tape.ops.elementwise import (
    add,
    cast,
    chain,
    dropout,
    multiply_scalar,
    softmax,
)
from service.estimator.tape.ops.products import (
    allocate_integers,
    batched_product,
    copy_contiguous,
    split,
)
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidConfigError, NotModelledError

EXPANSION = 4
"""Ratio of inner to hidden size; the library ignores ``expansion_ratio``."""


def mpt(config: Config) -> DecoderSpec:
    """Return an MPT."""
    config = apply_aliases(
        config, d_model="hidden_size", n_heads="num_attention_heads", n_layers="num_hidden_layers"
    )
    attention = _read_attention_config(config)
    hidden, heads = read_integer(config, "d_model", 2048), read_integer(config, "n_heads", 16)
    dropped = read_fraction(attention, "attn_pdrop", 0.0)
    return DecoderSpec(
        family="mpt",
        vocab_size=read_integer(config, "vocab_size", 50368),
        hidden_size=hidden,
        num_hidden_layers=read_integer(config, "n_layers", 24),
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=read_head_dim(config, hidden, heads),
        intermediate_size=EXPANSION * hidden,
        activation="gelu",
        norm="layer",
        gated=False,
        tie_word_embeddings=read_flag(config, "tie_word_embeddings", default=True),
        fused_projections=True,
        rotary=False,
        max_position_embeddings=read_integer(config, "max_seq_len", 2048),
        attention_dropout=dropped,
        residual_dropout=dropped,
    )


def _read_attention_config(config: Config) -> Mapping[str, object]:
    """Return ``attn_config``.

    Raises NotModelledError for a switch that transformers does not read, or that adds operations.
    """
    attention_config = config.get("attn_config") or {}
    if not isinstance(attention_config, Mapping):
        message = f"config field 'attn_config' is {attention_config!r}; it must be an object"
        raise InvalidConfigError(message, field="attn_config")
    expected = {
        "attn_type": "multihead_attention",
        "alibi": True,
        "clip_qkv": None,
        "prefix_lm": False,
        "qk_ln": False,
    }
    for name, value in expected.items():
        if attention_config.get(name, value) != value:
            raise NotModelledError(
                f"{name} {attention_config[name]!r} of mpt",
                field=f"attn_config.{name}",
                modelled=[f"{name}: {value}"],
            )
    return attention_config


@dataclass(frozen=True, slots=True, kw_only=True)
class MptBlock:
    """Layer whose feed-forward adds its residual itself.

    (``MptBlock.forward``.)
    """

    norms: tuple[Norm, Norm]
    fused: Linear
    output: Linear
    up: Linear
    down: Linear
    num_heads: int
    dropout: float

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target, in order of use."""
        return (self.fused, self.output, self.up, self.down)

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
        middle = chain(tape, dropout(tape, mixed, self.dropout), lambda t, value: add(t, value, x))
        again = ctx.norm(self.norms[1], middle, scope)
        tape.free(normed)
        hidden = chain(tape, ctx.linear(self.up, again, scope), ACTIVATIONS["gelu"])
        fed = ctx.linear(self.down, hidden, scope)
        y = chain(tape, dropout(tape, fed, self.dropout), lambda t, value: add(t, value, middle))
        tape.free(hidden, fed, again, middle, mixed, x)
        return_weights(ctx, probabilities)
        tape.release(previous_scores)
        return y

    def _attend(self, ctx: Recording, x: Value, scope: str) -> tuple[Value, Value]:
        """Return attention and its probabilities.

        A bias in fp32 makes the scores fp32.
        """
        tape, width = ctx.tape, self.output.in_features
        part = ctx.shape.tokens(width)
        query, key, value = split(tape, ctx.linear(self.fused, x, scope), (part, part, part))
        key, value = ctx.update_cache(key, value, width)
        operands = [self._lay_out(ctx, side) for side in (query, key)]
        scores = batched_product(
            tape, operands[0], operands[1], ctx.get_read_shape(None).scores(self.num_heads)
        )
        tape.free(*operands)
        biased = chain(tape, chain(tape, scores, multiply_scalar), add_in_fp32)
        masked = chain(tape, biased, multiply_scalar)
        probabilities = chain(tape, softmax(tape, masked), lambda t, p: cast(t, p, value.dtype))
        probabilities = chain(tape, probabilities, lambda t, p: dropout(t, p, self.dropout))
        values = self._lay_out(ctx, value)
        mixed = batched_product(tape, probabilities, values, query.numel)
        tape.free(values)
        merged = chain(tape, mixed, copy_contiguous)
        result = ctx.linear(self.output, merged, scope)
        tape.free(merged, masked, query, key, value)
        return result, probabilities

    def _lay_out(self, ctx: Recording, part: Value) -> Value:
        """Return a side of a product as the product reads it.

        The heads of one sequence are read as they lie.
        """
        return copy_if_slice(ctx.tape, part) if ctx.settings.batched else ctx.tape.alias(part)


def build(spec: DecoderSpec) -> Architecture:
    """Return the tree of an MPT."""
    plain = build_decoder(spec)

    def embed(ctx: Recording, tokens: Value) -> EmbeddingOutput:
        return _record_embedding(ctx, tokens, spec)

    return replace(
        plain,
        position_embedding=None,
        blocks=((_build_block(spec), spec.num_hidden_layers),),
        writes_out_attention=True,
        final_norm=_build_norm("norm_f", spec.hidden_size),
        masks=(),
        embed=embed,
    )


def _record_embedding(ctx: Recording, tokens: Value, spec: DecoderSpec) -> EmbeddingOutput:
    """Record ``MptModel.forward`` up to its first layer.

    It makes biases for as many positions as the model can have, and a boolean mask.
    """
    biases = make_tensor(
        ctx, sizes.constant(spec.num_attention_heads * spec.max_position_embeddings), DType.FP32
    )
    mask = allocate_integers(ctx.tape, ctx.get_read_shape(None).mask(1), bytes_each=1)
    return EmbeddingOutput(x=tokens, layer_args=(biases,), saved=(mask,))


def _build_block(spec: DecoderSpec) -> MptBlock:
    hidden, inner = spec.hidden_size, spec.intermediate_size
    return MptBlock(
        norms=(_build_norm("norm_1", hidden), _build_norm("norm_2", hidden)),
        fused=_build_linear("attn.Wqkv", "attention", hidden, 3 * hidden),
        output=_build_linear("attn.out_proj", "attention", hidden, hidden),
        up=_build_linear("ffn.up_proj", "mlp", hidden, inner),
        down=_build_linear("ffn.down_proj", "mlp", inner, hidden),
        num_heads=spec.num_attention_heads,
        dropout=spec.attention_dropout,
    )


def _build_norm(name: str, size: int) -> Norm:
    return Norm(name=name, style="layer", size=size)


def _build_linear(name: str, kind: str, ins: int, outs: int) -> Linear:
    return Linear(name=name, kind=kind, in_features=ins, out_features=outs)
