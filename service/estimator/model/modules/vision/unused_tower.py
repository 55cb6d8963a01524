"""A tower whose pictures have no term yet: it is loaded, and nothing goes through it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from service.estimator.model.block_module import BlockModule
from service.estimator.model.images import ImageInput
from service.estimator.model.weights.tensors import Linear, Norm, Weight


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleSight:
    """What stands before the layers of a tower, its equal layers, and what stands after them."""

    before: tuple[Weight, ...]
    layer: BlockModule
    num_layers: int
    norms: tuple[Norm, ...]
    after: tuple[Linear, ...]
    scope: str
    """What the names of the layers begin with."""

    def weights(self) -> tuple[Weight, ...]:
        """Return the parameter tensors."""
        norms = (weight for norm in self.norms for weight in norm.weights())
        outer = (weight for linear in self.after for weight in linear.weights())
        return (*self.before, *self.layer_weights(), *norms, *outer)

    def layer_weights(self) -> tuple[Weight, ...]:
        """Return the parameter tensors of the layers."""
        return tuple(self._of_layers())

    def _of_layers(self) -> Iterator[Weight]:
        for index in range(self.num_layers):
            for weight in self.layer.weights():
                yield replace(weight, name=f"{self.scope}{index}.{weight.name}")

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target."""
        scopes = (f"{self.scope}{index}." for index in range(self.num_layers))
        inner = (replace(linear, name=scope + linear.name) for scope in scopes for linear in self.layer.linears())
        return (*inner, *self.after)

    def image_input(self, *, pixels: int, most_tokens: int) -> ImageInput:
        """Return what a request can say of images: nothing, for now."""
        return ImageInput(
            tokens=None,
            unread=True,
            pixels=pixels,
            most_tokens=most_tokens,
            weights=self.weights(),
            linears=self.linears(),
            layer_weights=self.layer_weights(),
        )
