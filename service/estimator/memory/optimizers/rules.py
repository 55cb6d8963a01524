"""Rules of optimizer states, and of step temporaries as closed formulas.

A rule of states takes one tensor and the bytes per element of the weights that are stepped (the
master copy where there is one). A rule of temporaries takes all tensors of a rank in order.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from service.estimator.memory.optimizers.low_rank import LOW_RANK, count_projected
from service.estimator.memory.optimizers.steps import count_factors, is_vector
from service.estimator.memory.optimizers.tensors import TrainedTensor
from service.estimator.values.units import ceil_div


class TensorStates(NamedTuple):
    """Bytes of every state of one tensor.

    They are in the order in which they are made; ``managed`` ones lie in managed memory, beside
    the allocator.
    """

    device: tuple[int, ...] = ()
    managed: tuple[int, ...] = ()


StateRule = Callable[[TrainedTensor, int], TensorStates]
StepRule = Callable[[Sequence[TrainedTensor], int], int]

FP32 = 4
BITSANDBYTES_MIN_ELEMENTS = 4096
"""Smaller tensors keep 32-bit states (bitsandbytes ``optim/optimizer.py``, ``min_8bit_size``);
torchao follows it.
"""
BITSANDBYTES_BLOCK = 256
"""Elements per fp32 absmax (bitsandbytes ``optim/optimizer.py``, block-wise states)."""
PAGED_ELEMENTS = 100_000
"""Tensors from here on have their states in managed memory (bitsandbytes ``get_state_buffer``)."""
QMAP_BYTES = 256 * FP32
"""One map from 8-bit codes to values; bitsandbytes shares it, torchao has one per state."""


def list_elementwise(tensor: TrainedTensor, width: int, *, num_states: int) -> TensorStates:
    """Return states of the tensor's own shape.

    They have the dtype of the weights (torch.optim 2.13, ``zeros_like``).
    """
    return TensorStates((tensor.numel * width,) * num_states)


def list_compensated(tensor: TrainedTensor, width: int) -> TensorStates:
    """Return StableAdamW's states.

    They are two moments, and beside 16-bit weights the compensation of Kahan's sum; a squared
    epsilon, and a byte and an fp32 mean for its Triton kernel (torch-optimi 0.3 ``stableadamw.py``,
    ``_init_state``).
    """
    moments, epsilon = (tensor.numel * width,) * 2, width
    compensation = 1 if width == FP32 else tensor.numel * width
    return TensorStates((*moments, epsilon, compensation, FP32))


def list_bitsandbytes(
    tensor: TrainedTensor,
    _: int,
    *,
    states: tuple[int, ...],
    bits: int,
    paged: bool = False,
    fp32_tables: bool = False,
) -> TensorStates:
    """Return bitsandbytes' states (0.50 ``optim/optimizer.py``, ``init_state``).

    ``states`` has one number per state: how often it holds the tensor. They are fp32, or ``bits`` 8
    with an fp32 absmax per block from 4096 elements on; ``fp32_tables``: but for embeddings.
    """
    keeps_fp32 = (
        bits != 8  # noqa: PLR2004 - bits
        or tensor.numel < BITSANDBYTES_MIN_ELEMENTS
        or (fp32_tables and tensor.is_table)
    )
    buffers = tuple(tensor.numel * times * (FP32 if keeps_fp32 else 1) for times in states)
    blocks = ceil_div(tensor.numel, BITSANDBYTES_BLOCK)
    maxima = () if keeps_fp32 else tuple(blocks * times * FP32 for times in states)
    if paged and tensor.numel >= PAGED_ELEMENTS:
        return TensorStates(maxima, buffers)
    return TensorStates((*buffers, *maxima))


def list_packed(tensor: TrainedTensor, width: int, *, bits: int, block: int) -> TensorStates:
    """Return two states of ``bits`` per element.

    Each has an fp32 scale per block and a table; tensors that do not fit have the weights' dtype.
    (torchao 0.18 ``optim/adam.py`` ``_new_buffer``: from 4096 elements on, and only whole blocks.)
    """
    numel = tensor.numel
    if numel < BITSANDBYTES_MIN_ELEMENTS or numel % block:
        return TensorStates((numel * width,) * 2)
    return TensorStates((numel * bits // 8, numel // block * FP32, (1 << bits) * FP32) * 2)


def list_rows_and_columns(tensor: TrainedTensor, _: int) -> TensorStates:
    """Return Adafactor's states.

    They are fp32 row and column means, all elements of a vector, and the root mean square of the
    weights (transformers 5.23 ``optimization.py`` ``Adafactor`` without ``beta1``, as the HF
    Trainer makes it).
    """
    return TensorStates((*_list_factors(tensor, FP32), FP32))


def list_rows_and_columns_torch(tensor: TrainedTensor, width: int) -> TensorStates:
    """Return the states of torch.optim's Adafactor.

    They have the dtype of the weights.
    """
    return TensorStates(_list_factors(tensor, width))


def _list_factors(tensor: TrainedTensor, width: int) -> tuple[int, ...]:
    if is_vector(tensor):
        return (tensor.numel * width,)
    rows, columns = count_factors(tensor)
    return (rows * width, columns * width)


def list_momentum_or_adamw(tensor: TrainedTensor, width: int) -> TensorStates:
    """Return Muon's states (torch.optim.Muon 2.13).

    They are one momentum of a hidden matrix, and AdamW's two of everything else.
    """
    return TensorStates((tensor.numel * width,) * (1 if tensor.is_hidden_matrix else 2))


def list_low_rank(
    tensor: TrainedTensor, width: int, *, keeps_vectors: bool = False
) -> TensorStates:
    """Return a low-rank optimizer's states.

    They are the projection and two moments of the projected gradient; AdamW's states outside of
    hidden matrices. (galore-torch 1.0 ``galore_projector.py`` and apollo-torch 1.0.3
    ``random_projector.py``, ``proj_type`` std.) ``keeps_vectors``: an fp32 projection is a view of
    all singular vectors.
    """
    if not tensor.is_hidden_matrix:
        return TensorStates((tensor.numel * width,) * 2)
    fewest = min(tensor.shape)
    moment = count_projected(tensor) * width
    vectors = fewest if keeps_vectors and width == FP32 else min(LOW_RANK, fewest)
    return TensorStates((vectors * fewest * width, moment, moment))


def list_low_rank_with_norm(tensor: TrainedTensor, width: int) -> TensorStates:
    """Return APOLLO's states.

    They are those of a low rank, and the norm of the last scaled gradient.
    """
    states = list_low_rank(tensor, width).device
    return TensorStates((*states, width) if tensor.is_hidden_matrix else states)


def compute_muon_step(tensors: Sequence[TrainedTensor], width: int) -> int:
    """Return the bytes of Muon's step.

    It is the larger of the orthogonalisation of one matrix and foreach AdamW's roots of all other
    tensors. ``update`` is in the weights' dtype, old and new iterate in bf16, with two products of
    the smaller side (torch.optim.Muon 2.13).
    """
    other_tensors = [tensor for tensor in tensors if not tensor.is_hidden_matrix]
    matrices = [
        tensor.numel * (width + 2 + 2) + 2 * 2 * min(tensor.shape) ** 2
        for tensor in tensors
        if tensor.is_hidden_matrix
    ]
    roots = width * sum(tensor.numel * tensor.count for tensor in other_tensors)
    return max(roots, *matrices, 0)
