"""Protocol of one kind of layer."""

from collections.abc import Iterator
from typing import Protocol

from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Weight
from service.estimator.tape.nodes import Value


class BlockModule(Protocol):
    """One kind of layer, as a walk over a model uses it."""

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target, in order.

        The order is that of their use.
        """
        ...

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        ...

    def idle_parameters(self) -> int:
        """Return the parameters that one token does not use."""
        ...

    @property
    def cache_elements_per_token(self) -> int:
        """Elements of key and value that a cache keeps per token."""
        ...

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the layer and return its output.

        Its input is dropped at its end, when the loop over layers rebinds its name.
        """
        ...
