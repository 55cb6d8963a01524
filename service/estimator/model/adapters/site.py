"""A linear layer in one pass, for adapters and quantised weights."""

from collections.abc import Callable
from dataclasses import dataclass

from service.estimator.model.weights.scheme import Packing, Scheme
from service.estimator.model.weights.tensors import Linear
from service.estimator.tape.graph import Tape
from service.estimator.tape.nodes import Parameter
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One linear layer of a pass.

    ``tokens`` gives elements per token, ``parameter`` makes an adapter's tensor of a name, size and
    dtype. ``scheme`` is that of the layer's own weight, None where it is not quantised;
    ``compute_dtype`` the dtype of products with it.
    """

    tape: Tape
    layer: Linear
    tokens: Callable[[int], Size]
    parameter: Callable[[str, int, DType], Parameter]
    scheme: Scheme | None = None
    compute_dtype: DType = DType.BF16
    weight_dtype: DType = DType.BF16
    """The dtype of a weight that is not quantised."""
    dropout: float = 0.0
    """The probability of dropout before the adapter."""

    @property
    def output_numel(self) -> Size:
        """Elements of the layer's output."""
        return self.tokens(self.layer.out_features)

    @property
    def elements(self) -> int:
        """Elements of the layer's weight."""
        return self.layer.in_features * self.layer.out_features

    def is_packed_as(self, packing: Packing) -> bool:
        """Return whether the layer's weight is packed in this way."""
        return self.scheme is not None and self.scheme.packing is packing
