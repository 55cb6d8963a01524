"""Tensors whose graph an operator changes through views of them."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from worker.probes.architecture.listening.raw_pass import RawNode


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


def name_viewed(output: object, value: int, find_node: Callable[[Any], RawNode]) -> None:
    """Name what a layer's output is a view of as the output.

    A linear layer is one step, and what it makes within has no other name: an operator that
    changes its output in place (RoCBert's sums of embeddings) hands its gradient to that tensor.
    """
    base = output._base if isinstance(output, torch.Tensor) else None  # noqa: SLF001 - torch has no public name for it
    if base is not None and base.grad_fn is not None:
        find_node(base.grad_fn).outputs[base.output_nr] = value
