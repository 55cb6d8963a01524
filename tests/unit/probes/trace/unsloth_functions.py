"""Tensors that Unsloth's kernels make and keep, without the kernels.

unsloth 2026.10.9 and unsloth_zoo 2026.10.9 (``kernels/fast_lora.py``, ``rms_layernorm.py``,
``rope_embedding.py``, ``qk_norm_rope.py``; ``gradient_checkpointing.py``,
``fused_losses/fused_linear.py``), said anew in torch: what a Triton kernel writes is an empty
tensor, or the one that it writes over.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

HALF, FULL = torch.bfloat16, torch.float32


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sizes of a model, of its batch and of its adapters."""

    hidden: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    words: int
    rank: int
    batch: int
    length: int
    quantised: bool = False
    normalises_heads: bool = False
    tells_positions: bool = False
    checkpoints: bool = True
    moves_inputs: bool = True
    """Whether inputs of checkpoints are larger than 2 MiB."""
    gemma: bool = False
    chunk: int = 0
    """Rows of a loss in chunks; 0 is one by tiles."""

    @property
    def tokens(self) -> int:
        """Tokens of a batch."""
        return self.batch * self.length


def apply(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """Return what a function makes of its arguments."""
    return function.apply(*arguments)  # type: ignore[no-untyped-call]  # torch leaves it untyped


class Layer:
    """A frozen weight with its adapter."""

    def __init__(self, shape: Shape, ins: int, outs: int, scratch: Tensor) -> None:
        """Make it of 16 bits, or of codes that are dequantised into ``scratch``."""
        self.ins, self.outs, self.scratch, self.quantised = ins, outs, scratch, shape.quantised
        self.weight = (
            torch.empty(ins * outs // 2, dtype=torch.uint8)
            if shape.quantised
            else torch.empty(outs, ins, dtype=HALF)
        )
        self.down = torch.empty(shape.rank, ins, dtype=FULL, requires_grad=True)
        self.up = torch.empty(outs, shape.rank, dtype=FULL, requires_grad=True)

    def read(self, *, shared: bool) -> Tensor:
        """Return the weight as a product reads it."""
        if not self.quantised:
            return self.weight
        if shared:
            return self.scratch[: self.ins * self.outs].view(self.outs, self.ins)
        return torch.empty(self.outs, self.ins, dtype=HALF)

    def multiply(self, x: Tensor) -> Tensor:
        """Return the product, the adapter's added in place."""
        out = x @ self.read(shared=True).t()
        low = x @ self.down.t().to(HALF)
        out.addmm_(low, self.up.t().to(HALF))
        return out

    def factors(self) -> tuple[Tensor, Tensor]:
        """Return copies of both factors in 16 bits."""
        return self.down.to(HALF), self.up.to(HALF)


def _differentiate(x: Tensor, low: Tensor, grad: Tensor, down: Tensor, grads: list[Tensor]) -> None:
    """Fill the gradients of an adapter's factors."""
    grads[0].addmm_(low.t(), x, beta=0)
    grads[1].addmm_(grad.t(), x @ down.t(), beta=0)


class Together(torch.autograd.Function):
    """Layers with one input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, layers: Sequence[Layer], in_place: bool, *_: Tensor) -> Any:
        ctx.layers, ctx.in_place = layers, in_place
        ctx.save_for_backward(x)
        outs = tuple(layer.multiply(x.view(-1, x.shape[-1])) for layer in layers)
        return outs if len(outs) > 1 else outs[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        flat = x.view(-1, x.shape[-1])
        factors = [layer.factors() for layer in ctx.layers]
        made = [[torch.empty_like(part) for part in pair] for pair in factors]
        grads = tuple(grad.reshape(-1, grad.shape[-1]) for grad in grads)
        lows = [grad @ up for grad, (_, up) in zip(grads, factors, strict=True)]
        for low, grad, pair, (down, _) in zip(lows, grads, made, factors, strict=True):
            _differentiate(flat, low, grad, down, pair)
        whole = None
        for layer, grad, low, (down, _) in zip(ctx.layers, grads, lows, factors, strict=True):
            weight = layer.read(shared=False)
            if whole is None:
                whole = torch.mm(grad, weight, out=flat) if ctx.in_place else grad @ weight
            else:
                whole.addmm_(grad, weight)
            del weight
            whole.addmm_(low, down)
        assert whole is not None
        return whole.view(x.shape), None, None, *(part for pair in made for part in pair)


class Gated(torch.autograd.Function):
    """Gate, up and down."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, layers: Sequence[Layer], *_: Tensor) -> Tensor:
        gate, up, down = layers
        flat = x.view(-1, x.shape[-1])
        e, g = gate.multiply(flat), up.multiply(flat)
        h = torch.empty_like(e)
        out = down.multiply(h)
        ctx.layers = layers
        ctx.save_for_backward(x, e, g)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, df, de = ctx.saved_tensors
        flat = x.view(-1, x.shape[-1])
        gate, up, down = ctx.layers
        pairs = [layer.factors() for layer in (gate, up, down)]
        (gate_a, gate_b), (up_a, up_b), (down_a, down_b) = pairs
        h = grad @ down.read(shared=True)
        h.addmm_(grad @ down_b, down_a)
        made = {i: [torch.empty_like(part) for part in pairs[i]] for i in (2, 0, 1)}
        _differentiate(h, grad @ down_b, grad, down_a, made[2])
        up_low, gate_low = df @ up_b, de @ gate_b
        _differentiate(flat, up_low, df, up_a, made[1])
        _differentiate(flat, gate_low, de, gate_a, made[0])
        weight = up.read(shared=False)
        whole = torch.mm(df, weight, out=flat)
        del weight
        whole.addmm_(up_low, up_a)
        weight = gate.read(shared=False)
        whole.addmm_(de, weight)
        del weight
        whole.addmm_(gate_low, gate_a)
        return whole.view(x.shape), None, *(part for i in range(3) for part in made[i])


class Norm(torch.autograd.Function):
    """A norm over rows, which writes its gradient over the output's."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, in_place: bool) -> Tensor:
        y = torch.empty_like(x)
        ctx.save_for_backward(x, torch.empty(x.numel() // x.shape[-1], dtype=FULL))
        ctx.in_place = in_place
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return (grad if ctx.in_place else torch.empty_like(grad)), None


class Rotate(torch.autograd.Function):
    """A rotation in place, or into another tensor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, copies: bool) -> Tensor:
        ctx.copies = copies
        if copies:
            return torch.empty_like(x)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return (torch.empty_like(grad) if ctx.copies else grad), None


class NormRotate(torch.autograd.Function):
    """Norms and rotations of query and key."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x, torch.empty(x.shape[:-1], dtype=FULL))
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return torch.empty_like(grad)


class Checkpoint(torch.autograd.Function):
    """A layer that backward runs again, from a buffer or from its kept input."""

    @staticmethod
    def forward(ctx: Any, run: Callable[[Tensor], Tensor], buffer: Tensor | None, x: Tensor) -> Any:
        ctx.run, ctx.buffer = run, buffer
        if buffer is None:
            ctx.save_for_backward(x)
        return run(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        source = ctx.buffer if ctx.buffer is not None else ctx.saved_tensors[0]
        x = source.detach().requires_grad_()
        with torch.enable_grad():
            y = ctx.run(x)
        torch.autograd.backward(y, grad)
        return None, None, x.grad


class Loss(torch.autograd.Function):
    """The head and the cross entropy, whose gradient is made in forward."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, head: Tensor, labels: Tensor, shape: Shape) -> Tensor:
        flat = hidden.view(-1, shape.hidden)
        targets = torch.empty_like(labels).view(-1)
        index = torch.empty(shape.tokens, dtype=torch.int64)
        grads = torch.zeros_like(flat)
        logp = torch.empty(shape.tokens, dtype=FULL)
        stretches = -(-shape.words // 16384)
        if shape.chunk:
            buffer = torch.empty(shape.chunk, -(-shape.words // 8) * 8, dtype=FULL)
            for start in range(0, shape.tokens, shape.chunk):
                rows = torch.empty(shape.chunk, shape.hidden, dtype=HALF)
                part = torch.empty(7, stretches, shape.chunk, dtype=FULL)
                del part
                grad = torch.empty(shape.chunk, shape.hidden, dtype=FULL)
                grads[start : start + shape.chunk] = grad.to(HALF)
                del grad, rows
        else:
            lse, count = torch.empty_like(logp), min(shape.tokens, 4096)
            buffer = torch.empty(count, 16384, dtype=FULL)
            sums = torch.empty(count, shape.hidden, dtype=FULL)
            rows = torch.empty(count, shape.hidden, dtype=HALF)
            part = torch.empty(8, stretches, count, dtype=FULL)
            del part, rows, sums, lse
        del buffer, logp, index, targets
        ctx.save_for_backward(grads)
        ctx.size = hidden.shape
        return torch.empty((), dtype=FULL)

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> Any:
        (grads,) = ctx.saved_tensors
        return torch.empty_like(grads).view(ctx.size), None, None, None
