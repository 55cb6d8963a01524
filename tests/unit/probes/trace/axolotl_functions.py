"""Axolotl's autograd functions over adapters, said anew on PEFT's modules.

axolotl 0.19 (``kernels/lora.py``, ``kernels/quantize.py``, ``kernels/swiglu.py``,
``monkeypatch/lora_kernels.py``): what a Triton kernel or bitsandbytes writes is an empty tensor, or
the one that it writes over.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

_BLOCK = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A layer as a function reads it (``get_lora_parameters``)."""

    weight: Tensor
    bias: Tensor | None
    down: Tensor
    up: Tensor
    drop: nn.Module
    quantised: bool

    def dequantise(self) -> Tensor:
        """Return the weight, in a tensor of its own where it is quantised."""
        if not self.quantised:
            return self.weight
        out = torch.empty(self.weight.shape, dtype=torch.bfloat16)
        torch.empty(-(-out.numel() // _BLOCK), dtype=torch.float32)
        return out

    @property
    def factors(self) -> tuple[Tensor, Tensor]:
        """Both factors, which a function differentiates."""
        return self.down, self.up


def read_layer(module: nn.Module, *, quantised: bool) -> Layer:
    """Return what a function needs of PEFT's module."""
    base: Any = module.base_layer
    adapters: Any = module
    return Layer(
        weight=base.weight,
        bias=base.bias,
        down=adapters.lora_A["default"].weight,
        up=adapters.lora_B["default"].weight,
        drop=adapters.lora_dropout["default"],
        quantised=quantised,
    )


def drop_input(layer: Layer, x: Tensor) -> Tensor | None:
    """Return the dropped input that layers share (``_apply_dropout``)."""
    return None if isinstance(layer.drop, nn.Identity) else layer.drop(x)


def matmul_lora(
    x: Tensor,
    weight: Tensor,
    factors: tuple[Tensor, Tensor],
    bias: Tensor | None = None,
    dropped: Tensor | None = None,
    *,
    dequantise: Callable[[], Tensor] | None = None,
) -> Tensor:
    """Return a product with the adapter's added in place; ``weight`` is the transposed one."""
    shape = x.shape
    if dequantise is not None:
        weight = dequantise()
    x = x.view(-1, shape[-1])
    out = torch.matmul(x, weight)
    if dequantise is not None:
        del weight
    read = x if dropped is None else dropped.view(-1, shape[-1])
    a, b = factors[0].t().to(x.dtype), factors[1].t().to(x.dtype)
    out.addmm_(read @ a, b)
    if bias is not None:
        out += bias
    return out.view(*shape[:-1], -1)


def multiply(layer: Layer, x: Tensor, dropped: Tensor | None = None) -> Tensor:
    """Return a layer's output."""
    return matmul_lora(
        x,
        layer.weight.t(),
        layer.factors,
        layer.bias,
        dropped,
        dequantise=(lambda: layer.dequantise().t()) if layer.quantised else None,
    )


def copy_factors(layers: Sequence[Layer], dtype: torch.dtype) -> list[Tensor]:
    """Return the factors as backward reads them, which are saved."""
    return [factor.to(dtype) for layer in layers for factor in layer.factors]


def differentiate(
    read: Tensor, grad: Tensor, a: Tensor, b: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradient times B, and the gradients of A and B, transposed."""
    low = grad @ b
    d_a, d_b = torch.empty_like(a.t()), torch.empty_like(b.t())
    d_a.addmm_(read.t(), low, beta=0)
    d_b.addmm_(a @ read.t(), grad, beta=0)
    return low, d_a, d_b


class Projections(torch.autograd.Function):
    """Query, key and value (``LoRA_QKV``)."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, dropped: Tensor | None, layers: Sequence[Layer], *_: Tensor
    ) -> Any:
        outs = tuple(multiply(layer, x, dropped) for layer in layers)
        read = x if dropped is None else dropped
        ctx.save_for_backward(x, read, *copy_factors(layers, x.dtype))
        ctx.layers, ctx.drops = layers, dropped is not None
        return outs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        x, read, *copies = ctx.saved_tensors
        shape = x.shape
        grads = tuple(grad.reshape(-1, grad.shape[-1]) for grad in grads)
        read = read.view(-1, shape[-1])
        pairs = list(zip(copies[::2], copies[1::2], strict=True))
        made = [differentiate(read, grad, a, b) for grad, (a, b) in zip(grads, pairs, strict=True)]
        whole: Any = None
        for layer, grad in zip(ctx.layers, grads, strict=True):
            weight = layer.dequantise()
            if whole is None:
                whole = torch.mm(grad, weight)
            else:
                whole.addmm_(grad, weight)
            del weight
        drop = torch.zeros_like(read) if ctx.drops else None
        for (low, _, _), (a, _) in zip(made, pairs, strict=True):
            (whole if drop is None else drop).addmm_(low, a)
        factors = [part.t() for _, d_a, d_b in made for part in (d_a, d_b)]
        dropped = None if drop is None else drop.view(shape)
        return whole.view(shape), dropped, None, *factors


class Last(torch.autograd.Function):
    """Attention's last layer (``LoRA_O``)."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, dropped: Tensor | None, layers: Sequence[Layer], *_: Tensor
    ) -> Tensor:
        out = multiply(layers[0], x, dropped)
        read = x if dropped is None else dropped
        ctx.save_for_backward(*copy_factors(layers, x.dtype), x, read)
        ctx.layer, ctx.drops = layers[0], dropped is not None
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        a, b, x, read = ctx.saved_tensors
        shape = x.shape
        grad = grad.reshape(-1, grad.shape[-1])
        low, d_a, d_b = differentiate(read.reshape(-1, shape[-1]), grad, a, b)
        weight = ctx.layer.dequantise()
        whole = grad @ weight
        del weight
        drop = None
        if ctx.drops:
            drop = (low @ a * 2.0).view(shape)
        else:
            whole.addmm_(low, a)
        return whole.view(shape), drop, None, d_a.t(), d_b.t()


class Gated(torch.autograd.Function):
    """Gate, up and down (``LoRA_MLP``)."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, dropped: Tensor | None, layers: Sequence[Layer], *_: Tensor
    ) -> Tensor:
        gate, up, down = layers
        gated, other = multiply(gate, x, dropped), multiply(up, x, dropped)
        hidden = torch.empty_like(gated)
        out = multiply(down, hidden)
        read = x if dropped is None else dropped
        ctx.save_for_backward(x, read, gated, other, *copy_factors(layers, x.dtype))
        ctx.layers, ctx.drops = layers, dropped is not None
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, read, d_gate, d_up, gate_a, gate_b, up_a, up_b, down_a, down_b = ctx.saved_tensors
        gate, up, down = ctx.layers
        shape = x.shape
        grad, read = grad.view(-1, grad.shape[-1]), read.view(-1, shape[-1])
        d_gate, d_up = (part.view(-1, part.shape[-1]) for part in (d_gate, d_up))
        hidden = matmul_lora(
            grad,
            down.weight,
            (down_b.t(), down_a.t()),
            dequantise=down.dequantise if down.quantised else None,
        )
        down_low, down_da, down_db = differentiate(hidden, grad, down_a, down_b)
        up_low, up_da, up_db = differentiate(read, d_up, up_a, up_b)
        gate_low, gate_da, gate_db = differentiate(read, d_gate, gate_a, gate_b)
        whole = drop = None
        if ctx.needs_input_grad[0]:
            weight = up.dequantise()
            whole = torch.matmul(d_up, weight)
            del weight
            weight = gate.dequantise()
            whole.addmm_(d_gate, weight)
            del weight
            if ctx.drops:
                drop = torch.zeros_like(read)
            for low, a in ((up_low, up_a), (gate_low, gate_a)):
                (whole if drop is None else drop).addmm_(low, a)
            drop = None if drop is None else drop.view(shape)
            whole = whole.view(shape)
        del down_low
        factors = (gate_da, gate_db, up_da, up_db, down_da, down_db)
        return whole, drop, None, *(part.t() for part in factors)
