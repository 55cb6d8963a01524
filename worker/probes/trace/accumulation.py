"""Autograd's in-place accumulation of gradients, under a dispatch mode.

The gradients of a tensor that is used more than once are added up in place, except where a mode
could look on. ``InputBuffer::accumulate`` (torch 2.13, ``autograd/input_buffer.cpp``) adds into the
gradient that came first when it alone holds it. Under any dispatch mode it makes a new tensor
instead, so a traced backward would hold one gradient too many.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

_TENSOR_REFERENCES = 4
"""References to a tensor that only the buffer holds, in a dispatch mode.

They are the buffer's own, the call's stack, and two of its Python object (``test_accumulation``
holds them against a real run).
"""
_STORAGE_REFERENCES = 2
"""References to its storage: the tensor's, and that of the Python object that is inspected."""


def is_in_place_accumulation(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Return whether autograd would have done this addition in place."""
    if kwargs or len(args) != 2 or torch.is_grad_enabled():  # noqa: PLR2004 - the two gradients
        return False
    if torch._C._current_autograd_node() is None:  # noqa: SLF001 - torch has no public name for it
        return False
    first, second = args
    if (
        not isinstance(second, torch.Tensor)
        or first.shape != second.shape
        or first.dtype is not second.dtype
    ):
        return False
    return _is_held_by_buffer_only(first)


def _is_held_by_buffer_only(gradient: torch.Tensor) -> bool:
    if gradient._use_count() != _TENSOR_REFERENCES:  # type: ignore[attr-defined]  # noqa: SLF001 - missing in torch's stubs
        return False
    storage = gradient.untyped_storage()._cdata  # noqa: SLF001 - the storage's identity
    if torch._C._storage_Use_Count(storage) != _STORAGE_REFERENCES:  # noqa: SLF001 - the only count there is
        return False
    dense: bool = torch.ops.aten.is_non_overlapping_and_dense(gradient)
    return dense
