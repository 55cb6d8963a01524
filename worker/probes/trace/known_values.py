"""What transformers reads from the values of tensors, told to it: fake tensors have none."""

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
