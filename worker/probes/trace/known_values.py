"""Stand-ins for queries of a model's code that fake tensors cannot answer.

They answer as on CUDA: values, modes, moves.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from transformers import masking_utils


@contextmanager
def disable_packing_detection() -> Iterator[None]:
    """Report that no row packs several sequences.

    Positions run through, and packed ones would need a mask of their own. transformers 5.23 reads
    this from the positions, and while it traces takes every row for packed.
    """
    find = masking_utils.find_packed_sequence_indices

    def find_none(position_ids: torch.Tensor) -> None:
        find(position_ids)

    masking_utils.find_packed_sequence_indices = find_none
    try:
        yield
    finally:
        masking_utils.find_packed_sequence_indices = find


@contextmanager
def move_in_place() -> Iterator[None]:
    """Cast and move a module's weights by assigning their data.

    Real ones are moved so. Fake ones would be swapped with their copies, which torch 2.13 refuses
    where anything else refers to them.
    """
    swap = torch.utils.swap_tensors

    def assign_data(parameter: torch.Tensor, moved: torch.Tensor) -> None:
        parameter.data = moved.data

    torch.utils.swap_tensors = assign_data
    try:
        yield
    finally:
        torch.utils.swap_tensors = swap


@contextmanager
def report_cuda_autocast(dtype: torch.dtype | None) -> Iterator[None]:
    """Report that CUDA's autocast is on, with ``dtype``.

    Some models ask for it by hand before they cast (Nemotron's norms). The tensors are CPU tensors
    to torch, whose own autocast does the work; ``None`` changes nothing.
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
