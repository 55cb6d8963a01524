"""Layer of a norm and one sublayer with a residual."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.modules.attention.returned_weights import keep_attention_weights
from service.estimator.model.modules.layers.block import Mixer, PositionwiseLayer
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import add, cast, chain


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleBlock:
    """Layer of a norm, one sublayer and the residual around both.

    The sublayer is a mixer of any kind or a feed-forward (Nemotron-H).
    """

    norm: Norm
    mixer: Mixer | PositionwiseLayer

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target, in order of use."""
        return self.mixer.linears()

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        yield from self.norm.weights()
        yield from self.mixer.weights()

    def idle_parameters(self) -> int:
        """Return the parameters that one token does not use.

        These are the parameters of the experts that it is not sent to.
        """
        active: int | None = getattr(self.mixer, "active_parameters", None)
        if active is None:
            return 0
        return sum(weight.numel for weight in self.mixer.weights()) - active

    @property
    def cache_elements_per_token(self) -> int:
        """Elements of key and value that a cache keeps for one token."""
        elements: int = getattr(self.mixer, "cache_elements_per_token", 0)
        return elements

    @property
    def cache_window(self) -> int | None:
        """Maximum number of tokens in this layer's cache; None is all."""
        window: int | None = getattr(self.mixer, "sliding_window", None)
        return window

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the layer, which drops its input.

        The input is dropped at the end, when the loop over layers rebinds its name.
        """
        tape = ctx.tape
        with keep_attention_weights(ctx):
            source = cast(tape, x, ctx.settings.dtype)
            normed = chain(tape, source, lambda _, value: ctx.norm(self.norm, value, scope))
            mixed = self.mixer.record(ctx, normed, scope)
            tape.free(normed)
            y = add(tape, x, mixed)
            tape.free(mixed, x)
        return y
