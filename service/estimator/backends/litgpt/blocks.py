"""LitGPT's transformer block (``litgpt/model.py``, ``Block``)."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.backends.litgpt.attention import LitGptAttention
from service.estimator.backends.litgpt.linears import apply_linear
from service.estimator.backends.litgpt.norms import normalise
from service.estimator.backends.litgpt.prompts import list_second_weights
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Norm, Weight, iterate_weights
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import activate_saving_input, add, multiply, silu
from service.estimator.values.releases.litgpt import Adapter, LitGptCode


@dataclass(frozen=True, slots=True, kw_only=True)
class LitGptFeedForward:
    """Feed-forward layer: ``proj(gelu(fc(x)))``, or gated (``LLaMAMLP``, ``GemmaMLP``).

    ``layers`` are in order of use: one or two of the input, then that of the output.
    """

    layers: tuple[Linear, ...]
    is_silu: bool
    code: LitGptCode

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the layer; ``x`` stays with the caller."""
        tape, (*inner, output) = ctx.tape, self.layers
        read = [apply_linear(ctx, layer, x, scope, code=self.code) for layer in inner]
        activated = (silu if self.is_silu else activate_saving_input)(tape, read[0])
        if len(read) == 1:
            tape.free(*read)
            read = [activated]
        else:
            product = multiply(tape, activated, read[1])
            tape.free(activated)
            read, activated = [*read, product], product
        y = apply_linear(ctx, output, activated, scope, code=self.code)
        tape.free(*read)
        return y


@dataclass(frozen=True, slots=True, kw_only=True)
class LitGptBlock:
    """Layer of attention and feed-forward, one after another or side by side.

    Without ``feed_forward_norm`` both read the same norm.
    """

    attention_norm: Norm
    attention: LitGptAttention
    feed_forward_norm: Norm | None
    feed_forward: LitGptFeedForward
    is_parallel: bool
    code: LitGptCode

    def linears(self) -> tuple[Linear, ...]:
        """Return the layers that are packed or adapted, in order of use."""
        return (*self.attention.linears(), *self.feed_forward.layers)

    @property
    def norms(self) -> tuple[Norm, ...]:
        """Norms in order of use."""
        second = self.feed_forward_norm
        return (self.attention_norm,) if second is None else (self.attention_norm, second)

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors that are no adapter's."""
        if self.code.adapter is not Adapter.V2:
            for norm in self.norms:
                yield from norm.weights()
        yield from self.attention.weights()
        yield from iterate_weights(*self.feed_forward.layers)

    def adapter_weights(self) -> Iterator[Weight]:
        """Yield the tensors of LitGPT's own adapters."""
        prompt = self.attention.prompt
        if prompt is not None:
            yield from (prompt.table, prompt.gate)
        if self.code.adapter is Adapter.V2:
            layers = (self.attention.projection.fused, self.attention.output)
            yield from list_second_weights((*layers, *self.feed_forward.layers), self.norms)

    def idle_parameters(self) -> int:
        """Return the parameters that one token does not use: none."""
        return 0

    @property
    def cache_elements_per_token(self) -> int:
        """Elements of key and value that a cache keeps for one token."""
        return self.attention.cache_elements_per_token

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the layer, which drops its input."""
        tape, second = ctx.tape, self.feed_forward_norm
        normed = normalise(ctx, self.attention_norm, x, scope, self.code)
        mixed = self.attention.record(ctx, normed, scope)
        if self.is_parallel and second is not None:
            tape.free(normed)
            normed = normalise(ctx, second, x, scope, self.code)
        middle = add(tape, mixed, x)
        if not self.is_parallel and second is not None:
            tape.free(normed)
            normed = normalise(ctx, second, middle, scope, self.code)
        fed = self.feed_forward.record(ctx, normed, scope)
        y = add(tape, fed, middle)
        tape.free(fed, middle, mixed, normed, x)
        return y
