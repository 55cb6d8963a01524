"""Steps of optimizers that project the gradients of hidden matrices.

The Trainer gives them two groups: first all other tensors, then the projected ones (transformers
5.23 ``trainer_optimizer.py``, ``_setup_low_rank_optimizer``).
"""

from collections.abc import Sequence
from operator import attrgetter

from service.estimator.memory.optimizers.events import StepLog
from service.estimator.memory.optimizers.tensors import TrainedTensor

FP32 = 4
LOW_RANK = 128
"""Rank of GaLore's and APOLLO's projections in the HF Trainer (transformers 5.23
``trainer_optimizer.py``).
"""

_is_projected = attrgetter("is_hidden_matrix")


def count_projected(tensor: TrainedTensor) -> int:
    """Return the elements of a projected gradient."""
    return min(LOW_RANK, *tensor.shape) * max(tensor.shape)


def record_galore(
    log: StepLog, tensors: Sequence[TrainedTensor], width: int, *, decomposes: bool = True
) -> None:
    """Record GaLore's step (galore-torch 1.0 ``adamw.py``, ``GaLoreAdamW.step``).

    ``decomposes``: it is one of every 200 that decompose the gradients anew.
    """
    grad = denom = norm_grad = None
    for tensor in sorted(tensors, key=_is_projected):
        num_bytes = tensor.numel * width
        log.drop(grad)
        grad = None
        if not tensor.is_hidden_matrix:
            denom = log.rebind(denom, num_bytes)
            norm_grad = log.rebind(norm_grad, num_bytes)
            continue
        if decomposes:
            _record_decomposition(log, tensor, width)
        low_bytes = count_projected(tensor) * width
        grad = log.make(low_bytes)
        denom = log.rebind(denom, low_bytes)
        norm_grad = log.rebind(norm_grad, low_bytes)
        full, scaled = log.make(num_bytes), log.make(num_bytes)
        log.drop(full, norm_grad)
        norm_grad = scaled
    log.drop(grad, denom, norm_grad)


def _record_decomposition(log: StepLog, tensor: TrainedTensor, width: int) -> None:
    """Record a singular value decomposition.

    It has an fp32 cast, a working copy, and left and right vectors (``torch.linalg.svd``).
    """
    rows, columns = tensor.shape
    fewest = min(rows, columns)
    copies = [tensor.numel * FP32] * (1 if width == FP32 else 2)
    log.make_briefly(*copies, rows * fewest * FP32, fewest * columns * FP32)


def record_apollo(log: StepLog, tensors: Sequence[TrainedTensor], width: int) -> None:
    """Record APOLLO's step (apollo-torch 1.0.3 ``apollo.py``, ``APOLLOAdamW.step``).

    It scales whole channels, and its limiter divides the scaled gradient once more.
    """
    grad = denom = norm_grad = factor = scaled = None
    for tensor in sorted(tensors, key=_is_projected):
        num_bytes = tensor.numel * width
        log.drop(grad)
        grad = None
        if not tensor.is_hidden_matrix:
            denom = log.rebind(denom, num_bytes)
            norm_grad = log.rebind(norm_grad, num_bytes)
            continue
        low_bytes = count_projected(tensor) * width
        grad = log.make(low_bytes)
        denom = log.rebind(denom, low_bytes)
        norm_grad = log.rebind(norm_grad, low_bytes)
        factor = _record_factor(log, factor, max(tensor.shape) * width)
        scaled = log.rebind(scaled, num_bytes)
        scaled = log.rebind(scaled, num_bytes)
        log.drop(norm_grad)
        norm_grad = None
    log.drop(grad, denom, norm_grad, factor, scaled)


def _record_factor(log: StepLog, factor: int | None, num_bytes: int) -> int:
    """Record the quotient of two norms; return its place."""
    above, below = log.make(num_bytes), log.make(num_bytes)
    shifted = log.make(num_bytes)
    log.drop(below)
    quotient = log.make(num_bytes)
    log.drop(above, shifted, factor)
    return quotient
