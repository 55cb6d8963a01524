"""Foak's kernels and functions, said anew in torch.

fms-acceleration-foak 0.7 (``kernels/unsloth/*``, ``fused_ops/unsloth_lora/bnb/fast_lora.py``): what
a Triton kernel or bitsandbytes writes is an empty tensor, or the one that it writes over.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tests.unit.probes.trace.axolotl_functions import Layer, read_layer
from tests.unit.probes.trace.unsloth_functions import apply

_FULL = torch.float32
_SCALE = 2.0


class Norm(torch.autograd.Function):
    """A norm that writes its gradient over the output's, and gives its weight none."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        flat = x.view(-1, x.shape[-1])
        y = torch.empty_like(flat)
        ctx.save_for_backward(flat, weight, torch.empty(flat.shape[0], dtype=_FULL))
        return y.view(x.shape)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad.view(-1, grad.shape[-1]).view(grad.shape), None


class Rotate(torch.autograd.Function):
    """A rotation of heads where they lie."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.cos, ctx.sin = cos.squeeze(), sin.squeeze()
        return x.view(x.shape[0] * x.shape[1], -1).view(x.shape)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad.reshape(grad.shape[0] * grad.shape[1], -1).view(grad.shape), None, None


class Losses(torch.autograd.Function):
    """Losses of rows, whose gradient is written over the logits."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor) -> Tensor:
        losses = torch.empty(logits.shape[0], dtype=_FULL)
        ctx.save_for_backward(logits, torch.empty(logits.shape[0], dtype=_FULL), labels)
        return losses

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> Any:
        return ctx.saved_tensors[0], None


def compute_loss(logits: Tensor, labels: Tensor, vocab_size: int, **_: Any) -> Tensor:
    """Return the mean loss (``FastForCausalLMLoss``)."""
    logits = logits.float()
    shifted = logits[..., :-1, :].contiguous().view(-1, vocab_size)
    targets = labels[..., 1:].contiguous().view(-1)
    loss: Tensor = apply(Losses, shifted, targets).sum()
    return loss / torch.count_nonzero(targets != -100)


def rotate_both(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Return query and key rotated (``fast_rope_embedding``)."""
    query = apply(Rotate, query.transpose(1, 2), cos, sin).transpose(1, 2)
    key = apply(Rotate, key.transpose(1, 2), cos, sin).transpose(1, 2)
    return query, key


def _multiply(layer: Layer, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return a layer's output, and what its adapter read (``matmul_lora``)."""
    flat = x.view(-1, x.shape[-1])
    weight = layer.dequantise().t()
    out = torch.matmul(flat, weight)
    del weight
    read: Tensor = layer.drop(flat)
    down, up = layer.down.t(), layer.up.t()
    out += (read @ down.to(x.dtype)) @ (_SCALE * up.to(x.dtype))
    return out.view(*x.shape[:-1], -1), read


class Together(torch.autograd.Function):
    """Layers with one input (``LoRA_QKV``), or attention's last one (``LoRA_W``)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, layers: Sequence[Layer], *_: Tensor) -> Any:
        outs, reads = zip(*(_multiply(layer, x) for layer in layers), strict=True)
        factors = [factor for layer in layers for factor in layer.factors]
        ctx.save_for_backward(x, *factors, *reads)
        ctx.layers = layers
        return outs if len(outs) > 1 else outs[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        x, *saved = ctx.saved_tensors
        count = len(ctx.layers)
        pairs, reads = (
            list(zip(saved[: 2 * count : 2], saved[1 : 2 * count : 2], strict=True)),
            saved[-count:],
        )
        grads = tuple(grad.reshape(-1, grad.shape[-1]) for grad in grads)
        flat, dtype = x.view(-1, x.shape[-1]), x.dtype
        made: list[Tensor] = []
        for grad, read, (down, up) in zip(grads, reads, pairs, strict=True):
            made.append(read.t() @ (grad @ up.to(dtype)))
            made.append((down.to(dtype) @ read.t()) @ grad)
        whole: Any = None
        for layer, grad, read, (down, up) in zip(ctx.layers, grads, reads, pairs, strict=True):
            weight = layer.dequantise()
            if whole is not None:
                whole += grad @ weight
            elif count > 1:
                whole = torch.matmul(grad, weight, out=flat)
            else:
                whole = grad @ weight
            del weight
            whole += (read != 0) * (grad @ up.to(dtype) @ (_SCALE * down.to(dtype)))
        return whole.view(x.shape), None, *(part.t() for part in made)


def join(modules: Sequence[nn.Module], x: Tensor) -> Any:
    """Return what the function makes of PEFT's modules."""
    layers = [read_layer(module, quantised=True) for module in modules]
    factors = [factor for layer in layers for factor in layer.factors]
    return apply(Together, x, layers, *factors)
