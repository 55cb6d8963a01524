"""The plain decoder layer: norm, attention, norm, feed-forward, each half with a residual around it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from service.estimator.model.modules.attention.returned_weights import weights_named
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import add, multiply_scalar


class Half(Protocol):
    """What a layer asks of either of its halves."""

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target, in order of use."""
        ...

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        ...

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the half; ``x`` stays with the caller."""
        ...


class Mixer(Half, Protocol):
    """The half in which tokens meet."""

    @property
    def cache_elements_per_token(self) -> int:
        """Elements of key and value that a cache keeps for one token."""
        ...

    @property
    def sliding_window(self) -> int | None:
        """Tokens that are read at most; None is all of them."""
        ...


class Transform(Half, Protocol):
    """The half in which each token is on its own."""

    @property
    def active_parameters(self) -> int:
        """Parameters that one token uses."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One layer: norm, attention, norm, feed-forward, each with a residual around it."""

    attention_norm: Norm
    attention: Mixer
    feed_forward_norm: Norm
    feed_forward: Transform
    scales_residual: bool = False
    """Each half is multiplied by a constant before it is added (granite)."""
    names_attention: bool = False
    """The layer's code has a name for what attention gave until its end (GPT-2)."""

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target, in order of use."""
        return (*self.attention.linears(), *self.feed_forward.linears())

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        yield from self.attention_norm.weights()
        yield from self.attention.weights()
        yield from self.feed_forward_norm.weights()
        yield from self.feed_forward.weights()

    def idle_parameters(self) -> int:
        """Return the parameters that one token does not use: those of the experts it is not sent to."""
        return sum(weight.numel for weight in self.feed_forward.weights()) - self.feed_forward.active_parameters

    @property
    def cache_elements_per_token(self) -> int:
        """Elements of key and value that a cache keeps for one token."""
        return self.attention.cache_elements_per_token

    @property
    def cache_window(self) -> int | None:
        """Tokens that a cache of this layer keeps at most; None is all of them."""
        return self.attention.sliding_window

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the layer; its input is dropped at its end, when the loop over layers rebinds its name."""
        tape = run.tape
        with weights_named(run):
            normed = run.norm(self.attention_norm, x, scope)
            mixed = self.attention.record(run, normed, scope)
            tape.free(normed)
            named = (tape.alias(mixed),) if self.names_attention else ()
            middle = self._added(run, x, mixed)
            normed = run.norm(self.feed_forward_norm, middle, scope)
            fed = self.feed_forward.record(run, normed, scope)
            tape.free(normed)
            y = self._added(run, middle, fed)
            tape.free(middle, x, *named)
        return y

    def _added(self, run: Recording, residual: Value, branch: Value) -> Value:
        """Return the residual plus a branch, which is dropped."""
        tape = run.tape
        scaled = multiply_scalar(tape, branch) if self.scales_residual else tape.alias(branch)
        y = add(tape, residual, scaled)
        tape.free(scaled, branch)
        return y
