"""Parameter counts of a model tree."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from service.estimator.model.block_module import BlockModule
from service.estimator.model.weights.tensors import Weight


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterCounts:
    """Parameter counts of a model.

    ``active`` are those that one token uses, ``embedding`` the input table of tokens. ``tensors``
    are all parameter tensors with their number of occurrences, ``largest_block`` is over the kinds
    of blocks; ``outside_blocks`` is embedding, final norm and head. ``num_sparse_blocks`` have
    experts that a token is not sent to.
    """

    total: int
    active: int
    embedding: int
    by_module: Mapping[str, int]
    num_tensors: int
    tensors: tuple[tuple[Weight, int], ...]
    largest_block: int
    outside_blocks: int
    num_sparse_blocks: int


def count_parameters(
    weights: Iterable[tuple[Weight, int]],
    blocks: Iterable[tuple[BlockModule, int]],
    embedding: Weight,
) -> ParameterCounts:
    """Return the parameter counts of a tree.

    ``weights`` are all parameter tensors with their number of occurrences, ``blocks`` its kinds of
    blocks.
    """
    weights, blocks = tuple(weights), tuple(blocks)
    by_module: dict[str, int] = {}
    for weight, times in weights:
        by_module[weight.kind] = by_module.get(weight.kind, 0) + weight.numel * times
    total = sum(by_module.values())
    idle = [(block.idle_parameters(), times) for block, times in blocks]
    block_sizes = [
        (sum(weight.numel for weight in block.weights()), times) for block, times in blocks
    ]
    return ParameterCounts(
        total=total,
        active=total - sum(parameters * times for parameters, times in idle),
        embedding=embedding.numel if embedding.kind == "embedding" else 0,
        by_module=by_module,
        num_tensors=sum(times for _, times in weights),
        tensors=weights,
        largest_block=max((size for size, _ in block_sizes), default=0),
        outside_blocks=total - sum(size * times for size, times in block_sizes),
        num_sparse_blocks=sum(times for parameters, times in idle if parameters),
    )
