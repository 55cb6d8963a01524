"""Which linear layers a scheme packs, as the walk over a model asks."""

from service.estimator.modules.weights import Linear
from service.estimator.quantization.packing import packable
from service.estimator.quantization.scheme import Scheme, Scope

ROUTER = "router"
"""The kind of weights that choose experts: every library leaves them as they are."""


def quantises(layer: Linear, scheme: Scheme) -> bool:
    """Tell whether a scheme packs a linear layer of a block; schemes that tell equal blocks apart are refused before."""
    if scheme.scope is Scope.EXPERTS or layer.kind == ROUTER:
        return False
    return packable(layer.out_features, scheme) and not (scheme.kept and scheme.keeps(f"model.layers.0.{layer.name}"))
