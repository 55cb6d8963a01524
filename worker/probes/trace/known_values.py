"""Stand-ins for queries of a model's code that fake tensors cannot answer.

They answer as on CUDA: values, modes, moves.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

import torch
from torch.utils._device import _device_constructors
from torch.utils.weak import WeakIdKeyDictionary
from transformers import masking_utils

_CHECKS = ("_ignore_causal_mask_sdpa", "_ignore_bidirectional_mask_sdpa")
"""Functions of transformers 5.23 by which SDPA goes without a mask that hides nothing."""

_MASK_DIMENSIONS = 2
_MASK_ARGUMENT = 2
"""Place of the mask among the arguments of ``_preprocess_mask_arguments``."""


@contextmanager
def disable_packing_detection() -> Iterator[None]:
    """Report that no row packs several sequences.

    Positions run through, and packed ones would need a mask of their own. transformers 5.23 reads
    this from the positions, and while it traces takes every row for packed.
    """
    find = masking_utils.find_packed_sequence_indices

    def find_none(position_ids: torch.Tensor) -> None:
        find(position_ids)

    with _replace(masking_utils, "find_packed_sequence_indices", find_none):
        yield


@contextmanager
def skip_full_masks() -> Iterator[None]:
    """Skip masks of ones, as real tensors do.

    BART's decoder makes one where its batch has none. transformers 5.23 does not ask fake tensors
    whether they hide anything, and every layer would keep an additive copy.
    """
    full = WeakIdKeyDictionary()
    # Kept from its first call: with the stand-in in it, ``torch.device`` would not apply to ones.
    _device_constructors()
    make_ones, prepare = torch.ones, masking_utils._preprocess_mask_arguments  # noqa: SLF001 - no public name

    def make_full(*args: Any, **named: Any) -> torch.Tensor:  # noqa: ANN401 - torch's own arguments
        made = make_ones(*args, **named)
        if made.dim() == _MASK_DIMENSIONS:
            full[made] = True
        return made

    def prepare_full(*args: Any, **named: Any) -> tuple[Any, ...]:  # noqa: ANN401 - transformers' own arguments
        prepared: tuple[Any, ...] = prepare(*args, **named)
        mask = named["attention_mask"] if "attention_mask" in named else args[_MASK_ARGUMENT]
        if isinstance(mask, torch.Tensor) and mask in full:
            full[prepared[1]] = True
        return prepared

    def forget_full(name: str) -> Any:  # noqa: ANN401 - transformers leaves it untyped
        check = getattr(masking_utils, name)

        def check_others(mask: torch.Tensor | None, *args: object) -> bool:
            is_skipped: bool = check(None if mask is not None and mask in full else mask, *args)
            return is_skipped

        return check_others

    with ExitStack() as stack:
        stack.enter_context(_replace(torch, "ones", make_full))
        stack.enter_context(_replace(masking_utils, "_preprocess_mask_arguments", prepare_full))
        for name in _CHECKS:
            stack.enter_context(_replace(masking_utils, name, forget_full(name)))
        yield


@contextmanager
def _replace(module: ModuleType, name: str, function: Callable[..., object]) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, function)
    try:
        yield
    finally:
        setattr(module, name, before)


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
