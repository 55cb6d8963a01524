"""Which linear layers a scheme packs, as the walk over a model asks."""

from service.estimator.model.weights.packing import packable, packed_bytes
from service.estimator.model.weights.scheme import Scheme, Scope
from service.estimator.model.weights.tensors import Linear
from service.estimator.values.dtypes import DType
from service.estimator.values.units import ceil_div

ROUTER = "router"
"""The kind of weights that choose experts: every library leaves them as they are."""


def quantises(layer: Linear, scheme: Scheme) -> bool:
    """Tell whether a scheme packs a linear layer of a block; schemes that tell equal blocks apart are refused before."""
    if scheme.scope is Scope.EXPERTS or layer.kind == ROUTER:
        return False
    return packable(layer.out_features, scheme) and not (scheme.kept and scheme.keeps(f"model.layers.0.{layer.name}"))


def packed_away(layer: Linear, scheme: Scheme, dtype: DType) -> int:
    """Return how many elements of ``dtype`` less a layer's codes take than its weight: what a gathered unit does without."""
    if not quantises(layer, scheme):
        return 0
    codes = packed_bytes(layer.out_features, layer.in_features, scheme, dtype).codes
    return layer.in_features * layer.out_features - ceil_div(codes, dtype.bytes_per_element)
