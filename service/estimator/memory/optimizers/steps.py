"""Steps of optimizers that go from tensor to tensor, line by line.

A local name of such a loop holds its tensor until the next turn binds it anew.
"""

from collections.abc import Sequence
from math import prod

from service.estimator.memory.optimizers.events import StepLog
from service.estimator.memory.optimizers.tensors import TrainedTensor

FP32 = 4


def record_adamw_loop(log: StepLog, tensors: Sequence[TrainedTensor], width: int) -> None:
    """Record AdamW's loop (torch.optim 2.13, ``_single_tensor_adam``).

    Root and quotient of a tensor live beside the quotient of the one before: that one's name,
    ``denom``, is bound anew only when the quotient is there.
    """
    denom = None
    for tensor in tensors:
        root = log.make(tensor.numel * width)
        previous, denom = denom, log.make(tensor.numel * width)
        log.drop(root, previous)
    log.drop(denom)


def record_adafactor(log: StepLog, tensors: Sequence[TrainedTensor], width: int) -> None:
    """Record Adafactor's step as transformers writes it (5.23 ``optimization.py``).

    The Trainer makes it without ``scale_parameter``, ``relative_step`` and ``beta1``, and gives it
    matrices before vectors: those have a weight decay (``trainer.py``, ``create_optimizer``).
    """
    grad = param = update = None
    for tensor in sorted(tensors, key=is_vector):
        num_bytes = tensor.numel * FP32
        if width != FP32:
            log.drop(grad)
            grad = log.make(num_bytes)
            log.drop(param)
            param = log.make(num_bytes)
        squared = log.make(num_bytes)
        shifted = log.make(num_bytes)
        log.drop(squared, update)
        update = _record_variance(log, tensor)
        log.drop(shifted)
        log.make_briefly(num_bytes)
    log.drop(grad, param, update)


def _record_variance(log: StepLog, tensor: TrainedTensor) -> int:
    """Record the approximation of the second moment and return its place."""
    num_bytes = tensor.numel * FP32
    if is_vector(tensor):
        return log.make(num_bytes)
    rows, columns = count_factors(tensor)
    log.make_briefly(rows * FP32)
    log.make_briefly(columns * FP32)
    mean = log.make(FP32 * rows // tensor.shape[-2])
    row_factor = log.make(rows * FP32)
    log.drop(mean)
    column_factor = log.make(columns * FP32)
    product = log.make(num_bytes)
    log.drop(row_factor, column_factor)
    return product


def record_adafactor_torch(log: StepLog, tensors: Sequence[TrainedTensor], width: int) -> None:
    """Record torch.optim's Adafactor (2.13 ``_adafactor.py``, ``_single_tensor_adafactor``).

    Its ``foreach`` is off unless it is asked for.
    """
    row_mean = column_mean = squared = update = None
    for tensor in tensors:
        num_bytes = tensor.numel * width
        if is_vector(tensor):
            squared = log.rebind(squared, num_bytes)
            update = log.rebind(update, num_bytes)
            continue
        rows, columns = count_factors(tensor)
        row_mean = log.rebind(row_mean, rows * width)
        column_mean = log.rebind(column_mean, columns * width)
        previous, update = update, log.make(num_bytes)
        log.make_briefly(rows // tensor.shape[-2] * width)
        log.drop(previous)
    log.drop(row_mean, column_mean, squared, update)


def is_vector(tensor: TrainedTensor) -> bool:
    """Return whether a tensor has no rows and columns."""
    return len(tensor.shape) < 2  # noqa: PLR2004 - a matrix has two dimensions


def count_factors(tensor: TrainedTensor) -> tuple[int, int]:
    """Return the elements of row and column means."""
    *outer, rows, columns = tensor.shape
    return prod(outer) * rows, prod(outer) * columns
