"""Weight tensors and linear layers, as a model declares them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from math import prod

from service.estimator.values.units import ceil_div


class Split(StrEnum):
    """Tensor-parallel split of a linear layer.

    The sizes of such a layer are those of one rank.
    """

    NONE = "none"
    COLUMNS = "columns"
    """each rank has a part of the outputs, and of the gradient of the input only its share: those
    are added up
    """
    ROWS = "rows"
    """each rank has a part of the inputs, and of the outputs only its share: those are added up"""
    GATHERED_COLUMNS = "gathered_columns"
    """as columns, but the outputs are gathered at once"""
    SCATTERED_ROWS = "scattered_rows"
    """as rows, of an input that every rank has in full"""


@dataclass(frozen=True, slots=True)
class Weight:
    """One parameter tensor of a block.

    It has its name in the block, the kind of module it is counted under, and its shape.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    transposed: bool = False
    """Whether a stack of matrices has its inputs before its outputs (llama4's experts)."""
    split: bool = False
    """Whether it belongs to a layer that tensor-parallel ranks share; a bias that each rank has in
    full does as well.
    """
    viewed: bool = False
    """Whether products read a view of it: autocast casts that anew each time, and keeps copies of
    parameters alone.
    """

    @property
    def numel(self) -> int:
        """Elements of the tensor."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """Linear layer ``in_features -> out_features``.

    ``name`` ends in the word that adapters target.
    """

    name: str
    kind: str
    in_features: int
    out_features: int
    bias: bool = False
    split: Split = Split.NONE
    ranks: int = 1
    """Tensor-parallel ranks that share the layer."""
    viewed: bool = False
    """Whether its code multiplies by a transposed view of the weight (Falcon)."""

    def weights(self) -> Iterator[Weight]:
        """Yield the weight and the bias."""
        split = self.ranks > 1
        yield Weight(
            f"{self.name}.weight",
            self.kind,
            (self.out_features, self.in_features),
            split=split,
            viewed=self.viewed,
        )
        if self.bias:
            yield Weight(f"{self.name}.bias", self.kind, (self.out_features,), split=split)

    @property
    def features_read(self) -> int:
        """Input features on this rank before it takes its own part."""
        return self.in_features * (self.ranks if self.split is Split.SCATTERED_ROWS else 1)

    @property
    def target(self) -> str:
        """The word by which adapters name this layer."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Norm:
    """Normalisation over ``size`` features.

    The styles are those of ``recording.py``; ``bare`` has no weight.
    """

    name: str
    style: str
    size: int
    bias: bool = False
    kind: str = "norm"

    def weights(self) -> Iterator[Weight]:
        """Yield the scale and the shift."""
        if self.style == "bare":
            return
        yield Weight(f"{self.name}.weight", self.kind, (self.size,))
        if self.bias:
            yield Weight(f"{self.name}.bias", self.kind, (self.size,))


def split_columns(layer: Linear, ranks: int) -> Linear:
    """Return one rank's share of a layer's outputs."""
    return replace(
        layer, out_features=layer.out_features // ranks, split=Split.COLUMNS, ranks=ranks
    )


def split_rows(layer: Linear, ranks: int) -> Linear:
    """Return one rank's share of a layer's inputs."""
    return replace(layer, in_features=layer.in_features // ranks, split=Split.ROWS, ranks=ranks)


def iterate_weights(*modules: Linear | Norm) -> Iterator[Weight]:
    """Yield the tensors of layers and norms, in their order."""
    for module in modules:
        yield from module.weights()


def count_padded_elements(weights: Iterable[Weight], ranks: int) -> int:
    """Count the elements of weights whose rows are sharded, padding included.

    Each rank's rows are padded to as many as the first rank's (torch 2.13
    ``_fully_shard/_fsdp_param.py``, ``padded_sharded_size``: ranks gather and reduce shards of one
    size).
    """
    if ranks == 1:
        return sum([weight.numel for weight in weights])
    return sum(
        [
            weight.numel // weight.shape[0] * ceil_div(weight.shape[0], ranks) * ranks
            for weight in weights
            if weight.numel
        ],
    )
