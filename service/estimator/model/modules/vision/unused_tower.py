"""Vision tower that is loaded but never run.

Its images are not modelled yet.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from service.estimator.model.block_module import BlockModule
from service.estimator.model.images import ImageInput
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.processors.processor import Processor


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedVisionTower:
    """Weights of a vision tower: stem, equal layers and projector."""

    stem: tuple[Weight, ...]
    layer: BlockModule
    num_layers: int
    norms: tuple[Norm, ...]
    projector: tuple[Linear, ...]
    scope: str
    """Prefix of the layers' names."""

    def weights(self) -> tuple[Weight, ...]:
        """Return the parameter tensors."""
        norms = (weight for norm in self.norms for weight in norm.weights())
        outer = (weight for linear in self.projector for weight in linear.weights())
        return (*self.stem, *self.layer_weights(), *norms, *outer)

    def layer_weights(self) -> tuple[Weight, ...]:
        """Return the parameter tensors of the layers."""
        return tuple(self._iter_layer_weights())

    def _iter_layer_weights(self) -> Iterator[Weight]:
        for index in range(self.num_layers):
            for weight in self.layer.weights():
                yield replace(weight, name=f"{self.scope}{index}.{weight.name}")

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target."""
        scopes = (f"{self.scope}{index}." for index in range(self.num_layers))
        inner = (
            replace(linear, name=scope + linear.name)
            for scope in scopes
            for linear in self.layer.linears()
        )
        return (*inner, *self.projector)

    def build_image_input(
        self, *, pixels: int, max_tokens: int, processor: Processor
    ) -> ImageInput:
        """Return the image input, which accepts no images yet."""
        return ImageInput(
            tokens=None,
            processor=processor,
            unread=True,
            pixels=pixels,
            most_tokens=max_tokens,
            weights=self.weights(),
            linears=self.linears(),
            layer_weights=self.layer_weights(),
        )
