"""What the walk over a model asks of each kind of layer."""

from collections.abc import Iterator
from typing import Protocol

from service.estimator.model.recording import Recording
from service.estimator.model.weights.tensors import Linear, Weight
from service.estimator.tape.nodes import Value


class BlockModule(Protocol):
    """One kind of layer: what the walk over a model asks of it."""

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target, in order of use."""
        ...

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        ...

    def idle_parameters(self) -> int:
        """Return the parameters that one token does not use."""
        ...

    @property
    def cache_elements_per_token(self) -> int:
        """Elements of key and value that a cache keeps for one token."""
        ...

    def record(self, run: Recording, x: Value, scope: str) -> Value:
        """Record the layer; its input is dropped at its end, when the loop over layers rebinds its name."""
        ...
