"""A linear layer in one pass: what adapters and quantised weights need to know about it."""

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
    """One layer: ``tokens`` gives elements per token, ``parameter`` makes an adapter's tensor of a name, size and dtype.

    ``scheme`` is that of the layer's own weight, None where it is not quantised; ``compute`` the dtype of products with it.
    """

    tape: Tape
    layer: Linear
    tokens: Callable[[int], Size]
    parameter: Callable[[str, int, DType], Parameter]
    scheme: Scheme | None = None
    compute: DType = DType.BF16
    weight_dtype: DType = DType.BF16
    """That of a weight that is not quantised."""

    @property
    def ins(self) -> Size:
        """Elements of the layer's input."""
        return self.tokens(self.layer.in_features)

    @property
    def outs(self) -> Size:
        """Elements of the layer's output."""
        return self.tokens(self.layer.out_features)

    @property
    def elements(self) -> int:
        """Elements of the layer's weight."""
        return self.layer.in_features * self.layer.out_features

    def packed_as(self, packing: Packing) -> bool:
        """Tell whether the layer's weight is packed in this way."""
        return self.scheme is not None and self.scheme.packing is packing
