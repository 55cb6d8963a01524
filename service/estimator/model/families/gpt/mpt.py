"""MPT: norms without a shift, no biases, linear position biases in fp32, attention that the library writes out itself.

Field names and defaults are those of transformers 5.23 (``models/mpt/configuration_mpt.py``).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from service.estimator.model.architecture import Architecture, Embedded
from service.estimator.model.config_reader import Config, aliased, flag, head_dim, integer, number
from service.estimator.model.modules.attention.manual import add_in_fp32, filled
from service.estimator.model.modules.attention.returned_weights import scores_of_previous_layer
from service.estimator.model.modules.mlp.feedforward import ACTIVATIONS
from service.estimator.model.recording import Recording
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import build_decoder
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape import sizes
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.attention_kernels import apart
from service.estimator.tape.ops.elementwise import add, cast, chain, dropout, multiply_scalar, softmax
from service.estimator.tape.ops.products import batched_product, copy_of, integers, split
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidConfigError, NotModelledError

EXPANSION = 4
"""Inner over hidden size; the library ignores ``expansion_ratio``."""


def mpt(config: Config) -> DecoderSpec:
    """Return an MPT."""
    config = aliased(config, d_model="hidden_size", n_heads="num_attention_heads", n_layers="num_hidden_layers")
    attention = _attention_config(config)
    hidden, heads = integer(config, "d_model", 2048), integer(config, "n_heads", 16)
    dropped = number(attention, "attn_pdrop", 0.0)
    return DecoderSpec(
        family="mpt",
        vocab_size=integer(config, "vocab_size", 50368),
        hidden_size=hidden,
        num_hidden_layers=integer(config, "n_layers", 24),
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=head_dim(config, hidden, heads),
        intermediate_size=EXPANSION * hidden,
        activation="gelu",
        norm="layer",
        gated=False,
        tie_word_embeddings=flag(config, "tie_word_embeddings", default=True),
        fused_projections=True,
        rotary=False,
        max_position_embeddings=integer(config, "max_seq_len", 2048),
        attention_dropout=dropped,
        residual_dropout=dropped,
    )


def _attention_config(config: Config) -> Mapping[str, object]:
    """Return ``attn_config``; raise NotModelledError for a switch that transformers does not read, or that adds operations."""
    found = config.get("attn_config") or {}
    if not isinstance(found, Mapping):
        message = f"config field 'attn_config' is {found!r}; it must be an object"
        raise InvalidConfigError(message, field="attn_config")
    wanted = {"attn_type": "multihead_attention", "alibi": True, "clip_qkv": None, "prefix_lm": False, "qk_ln": False}
    for name, value in wanted.items():
        if found.get(name, value) != value:
            raise NotModelledError(f"{name} {found[name]!r} of mpt", field=f"attn_config.{name}", modelled=[f"{name}: {value}"])
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class MptBlock:
    """A layer (``MptBlock.forward``); the feed-forward adds its residual itself."""

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
        return 2 * self.output.in_features

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the layer; its input is dropped at its end, when the loop over layers rebinds its name."""
        tape = run.tape
        before = scores_of_previous_layer(run, self.num_heads)
        normed = run.norm(self.norms[0], x, scope)
        mixed, probabilities = self._attended(run, normed, scope)
        middle = chain(tape, dropout(tape, mixed, self.dropout), lambda t, value: add(t, value, x))
        again = run.norm(self.norms[1], middle, scope)
        tape.free(normed)
        hidden = chain(tape, run.linear(self.up, again, scope), ACTIVATIONS["gelu"])
        fed = run.linear(self.down, hidden, scope)
        y = chain(tape, dropout(tape, fed, self.dropout), lambda t, value: add(t, value, middle))
        tape.free(hidden, fed, again, middle, mixed, probabilities, x)
        tape.release(before)
        return y

    def _attended(self, run: Recording, x: Value, scope: str) -> tuple[Value, Value]:
        """Return attention and its probabilities: a bias in fp32 makes the scores fp32."""
        tape, width = run.tape, self.output.in_features
        part = run.extent.tokens(width)
        query, key, value = split(tape, run.linear(self.fused, x, scope), (part, part, part))
        key, value = run.cached(key, value, width)
        sides = [self._side(run, side) for side in (query, key)]
        scores = batched_product(tape, sides[0], sides[1], run.reach(None).scores(self.num_heads))
        tape.free(*sides)
        biased = chain(tape, chain(tape, scores, multiply_scalar), add_in_fp32)
        masked = chain(tape, biased, multiply_scalar)
        probabilities = chain(tape, softmax(tape, masked), lambda t, p: cast(t, p, value.dtype))
        probabilities = chain(tape, probabilities, lambda t, p: dropout(t, p, self.dropout))
        values = self._side(run, value)
        mixed = batched_product(tape, probabilities, values, query.numel)
        tape.free(values)
        merged = chain(tape, mixed, copy_of)
        result = run.linear(self.output, merged, scope)
        tape.free(merged, masked, query, key, value)
        return result, probabilities

    def _side(self, run: Recording, part: Value) -> Value:
        """Return a side of a product: the heads of one sequence are read as they lie."""
        return apart(run.tape, part) if run.batched else run.tape.alias(part)


def build(spec: DecoderSpec) -> Architecture:
    """Return the tree of an MPT."""
    plain = build_decoder(spec)

    def embed(run: Recording, tokens: Value) -> Embedded:
        return _embedded(run, tokens, spec)

    return replace(
        plain,
        position_embedding=None,
        blocks=((_block(spec), spec.num_hidden_layers),),
        writes_out_attention=True,
        final_norm=_norm("norm_f", spec.hidden_size),
        masks=(),
        embed=embed,
    )


def _embedded(run: Recording, tokens: Value, spec: DecoderSpec) -> Embedded:
    """Record ``MptModel.forward`` up to its first layer: biases for as many positions as the model can have, a boolean mask."""
    biases = filled(run, sizes.constant(spec.num_attention_heads * spec.max_position_embeddings), DType.FP32)
    mask = integers(run.tape, run.reach(None).mask(1), bytes_each=1)
    return Embedded(x=tokens, passed=(biases,), kept=(mask,))


def _block(spec: DecoderSpec) -> MptBlock:
    hidden, inner = spec.hidden_size, spec.intermediate_size
    return MptBlock(
        norms=(_norm("norm_1", hidden), _norm("norm_2", hidden)),
        fused=_linear("attn.Wqkv", "attention", hidden, 3 * hidden),
        output=_linear("attn.out_proj", "attention", hidden, hidden),
        up=_linear("ffn.up_proj", "mlp", hidden, inner),
        down=_linear("ffn.down_proj", "mlp", inner, hidden),
        num_heads=spec.num_attention_heads,
        dropout=spec.attention_dropout,
    )


def _norm(name: str, size: int) -> Norm:
    return Norm(name=name, style="layer", size=size)


def _linear(name: str, kind: str, ins: int, outs: int) -> Linear:
    return Linear(name=name, kind=kind, in_features=ins, out_features=outs)
