"""Tensors in what models take and return."""

from collections.abc import Iterator, Mapping

import torch


def iterate_tensors(tree: object) -> Iterator[torch.Tensor]:
    """Yield the tensors of nested sequences, mappings and outputs."""
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, Mapping):
        for part in tree.values():
            yield from iterate_tensors(part)
    elif isinstance(tree, tuple | list):
        for part in tree:
            yield from iterate_tensors(part)
