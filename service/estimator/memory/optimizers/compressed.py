"""DeepSpeed's optimizers that exchange one bit an element.

deepspeed 0.19.6, ``runtime/fp16/onebit`` (``adam.py``, ``zoadam.py``, ``lamb.py``) and
``runtime/comm/nccl.py``. They step fp32 masters: Adam's are one flat tensor
(``fp16/fused_optimizer.py``), LAMB's as many as the weights (``fp16/unfused_optimizer.py``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm

from service.estimator.memory.optimizers.rules import TensorStates
from service.estimator.memory.optimizers.tensors import TrainedTensor
from service.estimator.values.units import ceil_div

_HALF = 2
"""Bytes of a gradient, which is that of 16-bit weights."""
_BITS = 8
_COMPRESSION = 2
"""Copies of what is compressed: the signs times their scale, and what that leaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compression:
    """Tensors of one of these optimizers, in copies of the weights.

    ``live_copies`` are there while a step compresses. ``flat``: one tensor of all is stepped, whose
    fp32 gradient takes the place of the 16-bit ones; where its elements do not divide over the
    ranks, a copy of it with zeros behind is compressed.
    """

    states: int
    live_copies: int = 0
    flat: bool = True


def list_compressed(
    tensor: TrainedTensor, width: int, *, compression: Compression, ranks: int
) -> TensorStates:
    """Return the states, two errors, and cupy's buffers.

    The worker's error is of every element, the server's of a rank's part. cupy packs and unpacks
    the signs in a pool of its own that gives nothing back: a byte an element, and four times its
    bits, beside the bits of the rank's part. Zeros behind the last element are not counted.
    """
    part = ceil_div(tensor.numel, ranks)
    states = (tensor.numel * width,) * (compression.states + 1)
    bits = ceil_div(tensor.numel, _BITS)
    return TensorStates((*states, part * width, tensor.numel + 4 * bits + ceil_div(part, _BITS)))


def compute_compressed_step(
    tensors: Sequence[TrainedTensor], width: int, *, compression: Compression, ranks: int
) -> int:
    """Return the bytes of a step beside the 16-bit gradients."""
    elements = sum(tensor.numel * tensor.count for tensor in tensors)
    copies = 1 + _COMPRESSION + compression.live_copies
    if not compression.flat:
        return elements * copies * width
    is_padded = elements % (ranks * lcm(ranks, _BITS)) > 0
    return elements * ((copies + is_padded) * width - _HALF)
