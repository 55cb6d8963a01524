"""Tensors whose graph an operator changes through views of them."""

from collections.abc import Callable, Sequence
from typing import Any

import torch


def find_rewritten(func: Callable[..., Any], args: Sequence[object]) -> torch.Tensor | None:
    """Return the tensor that an operator writes into through a view.

    Autograd gives it another node (CopySlices) once the operator is through.
    """
    name = getattr(func, "__name__", "")
    if not name.partition(".")[0].endswith("_") or not args:
        return None
    view = args[0]
    if not isinstance(view, torch.Tensor) or not view._is_view():  # noqa: SLF001 - torch has no public name for it
        return None
    return view._base  # noqa: SLF001 - torch has no public name for it
