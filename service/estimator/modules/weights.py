"""Weight tensors and linear layers, as a model declares them."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod


@dataclass(frozen=True, slots=True)
class Weight:
    """One parameter tensor: its name in its block, the kind of module it is counted under, and its shape."""

    name: str
    kind: str
    shape: tuple[int, ...]

    @property
    def numel(self) -> int:
        """Elements of the tensor."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """A linear layer ``in_features -> out_features``; ``name`` ends in the word that adapters target."""

    name: str
    kind: str
    in_features: int
    out_features: int
    bias: bool = False

    def weights(self) -> Iterator[Weight]:
        """Yield the weight and the bias."""
        yield Weight(f"{self.name}.weight", self.kind, (self.out_features, self.in_features))
        if self.bias:
            yield Weight(f"{self.name}.bias", self.kind, (self.out_features,))

    @property
    def target(self) -> str:
        """The word by which adapters name this layer."""
        return self.name.rpartition(".")[2]

    def adapter_parameters(self, rank: int) -> int:
        """Return the parameters of a low-rank adapter on this layer (arXiv:2106.09685, section 4.1)."""
        return rank * (self.in_features + self.out_features)


@dataclass(frozen=True, slots=True, kw_only=True)
class Norm:
    """A normalisation over ``size`` features; the styles are those of ``recording.py``, ``bare`` has no weight."""

    name: str
    style: str
    size: int
    bias: bool = False

    def weights(self) -> Iterator[Weight]:
        """Yield the scale and the shift."""
        if self.style == "bare":
            return
        yield Weight(f"{self.name}.weight", "norm", (self.size,))
        if self.bias:
            yield Weight(f"{self.name}.bias", "norm", (self.size,))
