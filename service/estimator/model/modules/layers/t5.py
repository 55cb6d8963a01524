"""The layers of T5's two stacks: each half normalises its input, and adds what it made to it."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.modules.attention.returned_weights import weights_named
from service.estimator.model.modules.attention.t5 import BiasedAttention
from service.estimator.model.modules.mlp.feedforward import ACTIVATIONS
from service.estimator.model.recording import Recording
from service.estimator.model.shared_inputs import passing_of
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.nodes import Value, value_of
from service.estimator.tape.ops.elementwise import (
    add,
    add_scalar,
    cast,
    chain,
    dropout,
    from_output,
    mean_of_last,
    multiply,
    power,
)
from service.estimator.values.dtypes import DType


def normalised(run: Recording, norm: Norm, x: Value, scope: str) -> Value:
    """Return T5LayerNorm: the variance in fp32, its root times ``x`` itself, cast for 16-bit weights alone."""
    tape = run.tape
    (weight,) = run.parameters(norm.weights(), scope)
    squared = chain(tape, cast(tape, x, DType.FP32), power)
    variance = chain(tape, squared, lambda t, y: mean_of_last(t, y, run.extent.tokens(1)))
    inverse = chain(tape, add_scalar(tape, variance), from_output)
    scaled = chain(tape, inverse, lambda t, y: multiply(t, x, y))
    if weight.dtype is not DType.FP32:
        scaled = chain(tape, scaled, lambda t, y: cast(t, y, weight.dtype))
    y = multiply(tape, value_of(weight), scaled)
    tape.free(scaled, variance)
    return y


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseHalf:
    """``wo(dropout(act(wi(x))))``; ``gate`` multiplies what the activation gives (T5 1.1)."""

    up: Linear
    gate: Linear | None
    down: Linear
    activation: str
    dropout: float

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers in order of use."""
        return tuple(layer for layer in (self.up, self.gate, self.down) if layer is not None)

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the half; ``x`` stays with the caller."""
        tape = run.tape
        inner = chain(tape, run.linear(self.up, x, scope), ACTIVATIONS[self.activation])
        named: tuple[Value, ...] = ()
        if self.gate is not None:
            named = (inner, run.linear(self.gate, x, scope))
            inner = multiply(tape, *named)
        dropped = chain(tape, inner, lambda t, y: dropout(t, y, self.dropout))
        read = chain(tape, dropped, lambda t, y: cast(t, y, run.dtype))
        y = chain(tape, read, lambda _, z: run.linear(self.down, z, scope))
        tape.free(*named)
        return y


@dataclass(frozen=True, slots=True, kw_only=True)
class T5Layer:
    """A layer (``T5Block.forward``); the encoder's has nothing ``across``."""

    norms: tuple[Norm, ...]
    attention: BiasedAttention
    across: BiasedAttention | None
    feed_forward: DenseHalf
    dropout: float

    @property
    def reads_memory(self) -> bool:
        """Whether this is a decoder's layer."""
        return self.across is not None

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target, in order of use."""
        across = self.across.linears() if self.across is not None else ()
        return (*self.attention.linears(), *across, *self.feed_forward.linears())

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        yield from self.attention.weights()
        if self.across is not None:
            yield from self.across.weights()
        for layer in self.feed_forward.linears():
            yield from layer.weights()
        for norm in self.norms:
            yield from norm.weights()

    def idle_parameters(self) -> int:
        """Return the parameters that one token does not use: none."""
        return 0

    @property
    def cache_elements_per_token(self) -> int:
        """Elements of key and value that a decoder's cache keeps for one of its own tokens."""
        return 2 * self.attention.key.out_features if self.reads_memory else 0

    @property
    def memory_elements_per_token(self) -> int:
        """Elements of key and value that a decoder's cache keeps for one position of the encoder."""
        return self.cache_elements_per_token

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the layer; its input is dropped at its end, when the loop over layers rebinds its name."""
        tape = run.tape
        with weights_named(run):
            states = self._half(run, tape.alias(x), self.norms[0], self.attention, scope)
            if self.across is not None:
                earlier = len(run.names or ())
                states = self._half(run, states, self.norms[1], self.across, scope)
                tape.release(*(run.names or [])[:earlier])
                del (run.names or [])[:earlier]
            states = self._half(run, states, self.norms[-1], self.feed_forward, scope)
            tape.free(x, *passing_of(run).remade)
            passing_of(run).remade.clear()
        return states

    def _half(self, run: Recording, x: Value, norm: Norm, part: BiasedAttention | DenseHalf, scope: str) -> Value:
        """Return ``x + dropout(part(norm(x)))``; ``x`` is dropped at the end."""
        tape = run.tape
        normed = normalised(run, norm, x, scope)
        made = part.record(run, normed, scope)
        if isinstance(part, DenseHalf):
            tape.free(normed)
        dropped = dropout(tape, made, self.dropout)
        y = add(tape, x, dropped)
        tape.free(dropped, made, x)
        if not isinstance(part, DenseHalf):
            tape.free(normed)
        return y
