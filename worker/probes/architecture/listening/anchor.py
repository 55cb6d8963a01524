"""Gradients of hidden states in a model that trains no weight."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

ANCHOR = "_AnchorBackward"
"""Name of an anchor's node in autograd's graph."""
_anchors = ContextVar("_anchors", default=False)


class _Anchor(torch.autograd.Function):
    """Gives a tensor a gradient in place, and keeps nothing.

    A leaf's graph keeps its tensor, and hides when the last name of it ends.
    """

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, _anchor: torch.Tensor) -> torch.Tensor:  # noqa: ANN401 - torch's own
        """Return the tensor itself."""
        ctx.mark_dirty(tensor)
        return tensor

    @staticmethod
    def backward(_ctx: Any, *_gradients: torch.Tensor) -> tuple[None, None]:  # noqa: ANN401 - torch's own
        """Return nothing: no weight made the tensor."""
        return None, None


def find_embedder(model: PreTrainedModel) -> nn.Module | None:
    """Return the module that embeds tokens or patches, None without one."""
    try:
        module: object = model.get_input_embeddings()
    except (NotImplementedError, AttributeError):
        return None
    return module if isinstance(module, nn.Module) else None


def freeze(model: PreTrainedModel) -> None:
    """Train no weight, but give the embedded tokens or patches gradients.

    They are those of every module that has the table: BART's stacks have one each. What embeds
    audio asks for a gradient itself.
    """
    model.requires_grad_(requires_grad=False)
    embedder = find_embedder(model)
    if embedder is None:
        return

    def require_grad(_module: object, _args: object, output: torch.Tensor) -> None:
        if _anchors.get():
            anchor: Any = _Anchor
            anchor.apply(output, torch.empty(0, requires_grad=True))
        else:
            output.requires_grad_()

    for module in model.modules():
        is_stack = isinstance(module, nn.Embedding) and module.weight is getattr(
            embedder, "weight", None
        )
        if module is embedder or is_stack:
            module.register_forward_hook(require_grad)


@contextmanager
def anchor_gradients() -> Iterator[None]:
    """Give embedded tokens their gradients by anchors, not as leaves."""
    token = _anchors.set(True)
    try:
        yield
    finally:
        _anchors.reset(token)
