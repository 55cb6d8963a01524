"""Models with an image tower, next to a text tower or alone."""

from dataclasses import dataclass, replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.modules.vision.encoder import Tower
from service.estimator.model.weights.tensors import Linear, Weight

SCALE = Weight("logit_scale", "other", ())
"""The factor of similarities, a single number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionModel(Architecture):
    """Model that reads images.

    Where images are all that it reads, the tower's layers are its ``blocks``.
    """

    tower: Tower
    projections: tuple[Linear, ...] = ()
    """Projections of the image tower's width and the text tower's to the width in which they are
    compared.
    """

    def get_tower(self) -> Tower:
        """Return the tower with as many layers as the model."""
        depth = self.num_hidden_layers
        return replace(self.tower, num_layers=depth, used_layers=depth)

    def scale_weight(self) -> Weight:
        """Return the factor of similarities."""
        return SCALE
