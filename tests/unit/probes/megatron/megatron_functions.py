"""Tensors that Megatron Core's local layers make and keep, without their kernels.

Megatron Core 0.20 (``core/tensor_parallel/layers.py``,
``core/transformer/dot_product_attention.py``, ``core/fusions/fused_softmax.py``,
``fused_bias_gelu.py``, ``fused_bias_dropout.py``) and apex's ``FusedLayerNormAffineFunction``, said
anew in torch: what a kernel writes is an empty tensor, or the one that it writes over.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

HALF, FULL = torch.bfloat16, torch.float32


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sizes of a rank's layers and of its batch."""

    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head_dim: int
    layers: int
    batch: int
    length: int
    dropout: float = 0.1
    fused_softmax: bool = True
    fused_gradients: bool = True
    rotates: bool = False

    @property
    def query(self) -> int:
        """Elements of a token's query."""
        return self.heads * self.head_dim

    @property
    def key(self) -> int:
        """Elements of a token's key."""
        return self.kv_heads * self.head_dim


def apply(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """Return what a function makes of its arguments."""
    return function.apply(*arguments)  # type: ignore[no-untyped-call]  # torch leaves it untyped


class Norm(torch.autograd.Function):
    """A layer norm, which keeps its input, means and inverse deviations."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return the normalised rows."""
        rows = x.numel() // x.shape[-1]
        ctx.save_for_backward(x, torch.empty(rows, dtype=FULL), torch.empty(rows, dtype=FULL))
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        """Return the gradient of the input."""
        return torch.empty_like(ctx.saved_tensors[0])


class Linear(torch.autograd.Function):
    """A product, which keeps its input; its bias is added into a second tensor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, out: int, adds_bias: bool, fused: bool) -> Tensor:
        """Return the product."""
        ctx.save_for_backward(x)
        ctx.out, ctx.fused = out, fused
        y = torch.empty(*x.shape[:-1], out, dtype=HALF)
        if adds_bias:
            y = torch.empty_like(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        """Return the gradient of the input; that of the weight is added and dropped."""
        (x,) = ctx.saved_tensors
        made = torch.empty_like(x)
        if not ctx.fused:
            torch.empty(ctx.out, x.shape[-1], dtype=HALF)
        return made, None, None, None


class Softmax(torch.autograd.Function):
    """The kernel of scale, mask and softmax, whose backward is in place."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        """Return the probabilities."""
        y = torch.empty_like(scores)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        """Return the gradient, which was written over."""
        return grad


class Dropout(torch.autograd.Function):
    """Dropout of a kernel of its own, which keeps its mask."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return what is left."""
        mask = torch.empty(x.shape, dtype=torch.bool)
        ctx.save_for_backward(mask)
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        """Return the gradient of the input."""
        return torch.empty_like(grad)


class Gelu(torch.autograd.Function):
    """A fused activation with its bias, which keeps its input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return the activated features."""
        ctx.save_for_backward(x)
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        """Return the gradient of the input."""
        return torch.empty_like(grad)


class DropoutAdd(torch.autograd.Function):
    """The compiled sum of a residual and of what dropout leaves, which keeps the mask."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, residual: Tensor, drops: bool) -> Tensor:
        """Return the sum."""
        ctx.drops = drops
        if drops:
            ctx.save_for_backward(torch.empty(x.shape, dtype=torch.bool))
        return torch.empty_like(residual)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        """Return the gradients of both."""
        return torch.empty_like(grad) if ctx.drops else grad, grad, None


class Rotate(torch.autograd.Function):
    """A kernel that rotates heads into a new tensor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return the rotated heads."""
        return torch.empty(x.shape, dtype=x.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        """Return the gradient of the heads."""
        return torch.empty_like(grad)


class Sent(torch.autograd.Function):
    """A hidden state that is sent on and dropped; its gradient comes from the next stage."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return nothing to keep."""
        ctx.shape = x.shape
        return torch.empty(0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        """Return the gradient that was received."""
        return torch.empty(ctx.shape, dtype=HALF)


def run_layer(x: Tensor, shape: Shape, buffer: Tensor, mask: Tensor) -> Tensor:
    """Run a layer as ``TransformerLayer`` of the local specification does."""
    fused, drops = shape.fused_gradients, shape.dropout > 0
    normed = apply(Norm, x)
    mixed = apply(Linear, normed, shape.query + 2 * shape.key, True, fused)
    del normed
    context = _attend(mixed, shape, buffer, mask)
    del mixed
    out = apply(Linear, context, shape.hidden, False, fused)
    del context
    middle = apply(DropoutAdd, out, x, drops)
    del out, x
    normed = apply(Norm, middle)
    wide = apply(Linear, normed, shape.inner, False, fused)
    del normed
    active = apply(Gelu, wide)
    del wide
    out = apply(Linear, active, shape.hidden, False, fused)
    del active
    y: Tensor = apply(DropoutAdd, out, middle, drops)
    return y


def _attend(mixed: Tensor, shape: Shape, buffer: Tensor, mask: Tensor) -> Tensor:
    """Run attention over whole scores, as ``DotProductAttention.forward`` does."""
    length, batch, groups = shape.length, shape.batch, shape.heads // shape.kv_heads
    heads = mixed.view(length, batch, shape.kv_heads, (groups + 2) * shape.head_dim)
    query, key, value = torch.split(
        heads, [groups * shape.head_dim, shape.head_dim, shape.head_dim], dim=3
    )
    query = query.reshape(length, batch, shape.heads, shape.head_dim)
    if shape.rotates:
        query, key = apply(Rotate, query), apply(Rotate, key)
    if groups > 1:
        key, value = (one.repeat_interleave(groups, dim=2) for one in (key, value))
    rows = batch * shape.heads
    query, key = query.reshape(length, rows, -1), key.view(length, rows, -1)
    product = torch.baddbmm(
        buffer, query.transpose(0, 1), key.transpose(0, 1).transpose(1, 2), beta=0.0, alpha=0.5
    )
    scores = product.view(batch, shape.heads, length, length)
    probabilities = apply(Softmax, scores) if shape.fused_softmax else _normalise(scores, mask)
    if shape.dropout:
        probabilities = apply(Dropout, probabilities)
    value = value.view(length, rows, -1)
    context = torch.bmm(probabilities.view(rows, length, -1), value.transpose(0, 1))
    context = context.view(batch, shape.heads, length, -1)
    context = context.permute(2, 0, 1, 3).contiguous()
    return context.view(length, batch, shape.query)


def _normalise(scores: Tensor, mask: Tensor) -> Tensor:
    """Return the softmax in fp32, as ``forward_torch_softmax`` makes it."""
    wide = scores.float()
    wide = wide * 3.0
    masked = wide.masked_fill_(mask, -10000.0)
    return torch.softmax(masked, dim=-1).bfloat16()
