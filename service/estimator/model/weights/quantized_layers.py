"""Linear layers that a scheme packs, for the walk over a model."""

from service.estimator.model.weights.packing import is_packable, packed_bytes
from service.estimator.model.weights.scheme import Scheme, Scope
from service.estimator.model.weights.tensors import Linear
from service.estimator.values.dtypes import DType
from service.estimator.values.units import ceil_div

ROUTER = "router"
"""The kind of weights that choose experts: every library leaves them as they are."""


def is_quantised(layer: Linear, scheme: Scheme) -> bool:
    """Return whether a scheme packs a linear layer of a block.

    Schemes that tell equal blocks apart are refused before.
    """
    if scheme.scope is Scope.EXPERTS or layer.kind == ROUTER:
        return False
    return is_packable(layer.out_features, scheme) and not (
        scheme.kept and scheme.is_excluded(f"model.layers.0.{layer.name}")
    )


def count_saved_elements(layer: Linear, scheme: Scheme, dtype: DType) -> int:
    """Return the elements that packing saves a gathered unit.

    They are elements of ``dtype``: the layer's weight less its codes.
    """
    if not is_quantised(layer, scheme):
        return 0
    codes = packed_bytes(layer.out_features, layer.in_features, scheme, dtype).codes
    return layer.in_features * layer.out_features - ceil_div(codes, dtype.bytes_per_element)
