"""What a model's code asks beside its operators, answered as on CUDA: values that fake tensors lack, modes, moves."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from transformers import masking_utils


@contextmanager
def whole_sequences() -> Iterator[None]:
    """Say that no row packs several sequences: positions run through, and packed ones would need a mask of their own.

    transformers 5.23 reads this from the positions, and while it traces takes every row for packed.
    """
    find = masking_utils.find_packed_sequence_indices

    def found_none(position_ids: torch.Tensor) -> None:
        find(position_ids)

    masking_utils.find_packed_sequence_indices = found_none
    try:
        yield
    finally:
        masking_utils.find_packed_sequence_indices = find


@contextmanager
def moved_in_place() -> Iterator[None]:
    """Let a module's weights be cast and moved as real ones are, by giving each parameter its new data.

    Fake ones would be swapped with their copies, which torch 2.13 refuses where anything else refers to them.
    """
    swap = torch.utils.swap_tensors

    def give(parameter: torch.Tensor, moved: torch.Tensor) -> None:
        parameter.data = moved.data

    torch.utils.swap_tensors = give
    try:
        yield
    finally:
        torch.utils.swap_tensors = swap


@contextmanager
def autocast_on_cuda(dtype: torch.dtype | None) -> Iterator[None]:
    """Say that CUDA's autocast is on, with ``dtype``: some models ask for it by hand before they cast (Nemotron's norms).

    The tensors are CPU tensors to torch, whose own autocast does the work; ``None`` changes nothing.
    """
    if dtype is None:
        yield
        return
    before = torch.get_autocast_dtype("cuda")
    torch.set_autocast_enabled("cuda", True)  # noqa: FBT003 - torch's signature
    torch.set_autocast_dtype("cuda", dtype)
    try:
        yield
    finally:
        torch.set_autocast_dtype("cuda", before)
        torch.set_autocast_enabled("cuda", False)  # noqa: FBT003 - torch's signature
