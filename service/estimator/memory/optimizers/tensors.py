"""Trained tensors of a rank, by shape.

Some optimizers keep and need bytes that depend on shapes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

from service.estimator.model.weights.tensors import Weight
from service.estimator.values.units import ceil_div

TABLE = "embedding"
"""Kind of the weights of ``nn.Embedding``."""
_OUTSIDE = frozenset({TABLE, "lm_head"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedTensor:
    """Trained tensor of a shape that occurs ``count`` times.

    ``hidden`` ones are neither a table nor the head.
    """

    shape: tuple[int, ...]
    count: int
    hidden: bool
    split: bool = False
    """Whether it belongs to a layer that tensor-parallel ranks share."""
    is_table: bool = False
    """Whether it is an embedding's (``nn.Embedding``)."""

    @property
    def numel(self) -> int:
        """Elements of one of them."""
        return prod(self.shape)

    @property
    def is_hidden_matrix(self) -> bool:
        """Whether it is a matrix between embedding and head.

        Low-rank and orthogonal updates are for such matrices.
        """
        return self.hidden and len(self.shape) == 2  # noqa: PLR2004 - a matrix has two dimensions


def list_tensors(weights: Iterable[tuple[Weight, int]]) -> tuple[TrainedTensor, ...]:
    """Return the tensors of a tree's weights, in their order."""
    return tuple(
        TrainedTensor(
            shape=weight.shape,
            count=count,
            hidden=weight.kind not in _OUTSIDE,
            split=weight.split,
            is_table=weight.kind == TABLE,
        )
        for weight, count in weights
    )


def split_rows(tensors: Sequence[TrainedTensor], shards: int) -> tuple[TrainedTensor, ...]:
    """Return the local tensors of the first rank, which holds the most.

    FSDP2 splits the first dimension, rounded up (torch 2.13,
    ``distributed/fsdp/_fully_shard/_fsdp_param.py``, ``_chunk_with_empty``).
    """
    if shards == 1:
        return tuple(tensors)
    return tuple(
        replace(
            tensor,
            shape=(ceil_div(tensor.shape[0], shards), *tensor.shape[1:]) if tensor.shape else (),
        )
        for tensor in tensors
    )


def count_row_elements(weights: Iterable[tuple[Weight, int]], shards: int) -> int:
    """Return the elements that the first rank of ``split_rows`` holds."""
    return sum(
        weight.numel // weight.shape[0] * ceil_div(weight.shape[0], shards) * count
        for weight, count in weights
    )


def flatten(num_elements: int, shards: int) -> tuple[TrainedTensor, ...]:
    """Return the one flat tensor of a rank.

    ZeRO cuts the joint buffer of all parameters, not each of them.
    """
    return (TrainedTensor(shape=(ceil_div(num_elements, shards),), count=1, hidden=True),)
