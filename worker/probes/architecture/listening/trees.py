"""Parts of models, and tensors in what they take and return."""

from collections.abc import Iterator, Mapping

import torch
from torch import nn
from transformers import PreTrainedModel


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


def find_linears(model: PreTrainedModel) -> set[int]:
    """Return the identities of linear layers.

    They have a weight of their own, but for the head.
    """
    output = model.get_output_embeddings()  # type: ignore[no-untyped-call]  # transformers leaves it untyped
    names = {id(weight): name for name, weight in model.named_parameters()}
    return {
        id(module)
        for name, module in model.named_modules()
        if type(module) is nn.Linear
        and (module is output or names.get(id(module.weight)) == f"{name}.weight")
    }
