"""Layer of a norm and a recurrent mixer."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.modules.layers.block import Mixer
from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import add, cast, chain
from service.estimator.values.dtypes import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class MambaBlock:
    """Layer of norm and mixer with a residual.

    The residual may be kept in fp32.
    """

    norm: Norm
    mixer: Mixer
    fp32_residual: bool

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target, in order of use."""
        return self.mixer.linears()

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        yield from self.norm.weights()
        yield from self.mixer.weights()

    def idle_parameters(self) -> int:
        """Return the parameters that one token does not use: none."""
        return 0

    @property
    def cache_elements_per_token(self) -> int:
        """Elements that a cache keeps for one token."""
        return self.mixer.cache_elements_per_token

    @property
    def cache_window(self) -> int | None:
        """Maximum number of tokens in this layer's cache; None is all."""
        return None

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the layer, which drops its input.

        The input is dropped at the end, when the loop over layers rebinds its name.
        """
        tape = ctx.tape
        source = cast(tape, x, ctx.settings.dtype)
        normed = chain(tape, source, lambda _, value: ctx.norm(self.norm, value, scope))
        residual = cast(tape, x, DType.FP32) if self.fp32_residual else tape.alias(x)
        mixed = self.mixer.record(ctx, normed, scope)
        tape.free(normed)
        y = add(tape, residual, mixed)
        tape.free(mixed, residual, x)
        return y
