"""What the optimizers of the libraries keep per tensor, and what their step needs for a moment, in bytes.

A rule of states takes one tensor and the bytes per element of the weights that are stepped (the master copy where there is
one). A rule of temporaries takes all tensors of a rank in order, since some hold those of the tensor before.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from service.estimator.memory.optimizers.tensors import TrainedTensor
from service.estimator.values.units import ceil_div

StateRule = Callable[[TrainedTensor, int], int]
StepRule = Callable[[Sequence[TrainedTensor], int], int]

FP32 = 4
BITSANDBYTES_MIN_ELEMENTS = 4096
"""Smaller tensors keep 32-bit states (bitsandbytes ``optim/optimizer.py``, ``min_8bit_size``); torchao follows it."""
BITSANDBYTES_BLOCK = 256
"""Elements per fp32 absmax (bitsandbytes ``optim/optimizer.py``, block-wise states)."""
PAGED_ELEMENTS = 100_000
"""Tensors from here on have their states in managed memory (bitsandbytes ``get_state_buffer``)."""
QMAP_BYTES = 256 * FP32
"""One map from 8-bit codes to values; bitsandbytes shares it, torchao has one per state."""
LOW_RANK = 128
"""Rank of GaLore's and APOLLO's projections in the HF Trainer (transformers 5.23 ``trainer_optimizer.py``)."""


def elementwise(tensor: TrainedTensor, width: int, *, num_states: int) -> int:
    """Return states of the tensor's own shape in the dtype of the weights (torch.optim 2.13, ``zeros_like``)."""
    return tensor.numel * num_states * width


def elementwise_fp32(tensor: TrainedTensor, _: int, *, num_states: int) -> int:
    """Return states in fp32 whatever the weights are (bitsandbytes' 32-bit optimizers)."""
    return tensor.numel * num_states * FP32


def blockwise_8bit(tensor: TrainedTensor, _: int, *, num_states: int) -> int:
    """Return 8-bit states with an absmax per block; fp32 states below 4096 elements (bitsandbytes)."""
    if tensor.numel < BITSANDBYTES_MIN_ELEMENTS:
        return tensor.numel * num_states * FP32
    return num_states * (tensor.numel + ceil_div(tensor.numel, BITSANDBYTES_BLOCK) * FP32)


def managed(tensor: TrainedTensor, width: int, *, rule: StateRule, bytes_each: int) -> int:
    """Return what paged states leave in the allocator: all of small tensors, else the absmax of the blocks alone."""
    kept: int = rule(tensor, width)
    return kept if tensor.numel < PAGED_ELEMENTS else kept - tensor.numel * bytes_each


def packed(tensor: TrainedTensor, width: int, *, bits: int, block: int) -> int:
    """Return two states of ``bits`` each with an fp32 scale per block and a table each; the weights' dtype where unfit.

    (torchao 0.18 ``optim/adam.py`` ``_new_buffer``: from 4096 elements on, and only whole blocks.)
    """
    numel = tensor.numel
    if numel < BITSANDBYTES_MIN_ELEMENTS or numel % block:
        return 2 * numel * width
    return 2 * (numel * bits // 8 + numel // block * FP32 + (1 << bits) * FP32)


def rows_and_columns(tensor: TrainedTensor, _: int) -> int:
    """Return Adafactor's fp32 row and column means, all elements of a vector, and the root mean square of the weights.

    (transformers 5.23 ``optimization.py`` ``Adafactor`` without ``beta1``, as the HF Trainer makes it.)
    """
    if len(tensor.shape) < 2:  # noqa: PLR2004 - a matrix has two dimensions
        return (tensor.numel + 1) * FP32
    *outer, rows, columns = tensor.shape
    leading = tensor.numel // (rows * columns) if outer else 1
    return (leading * (rows + columns) + 1) * FP32


def momentum_or_adamw(tensor: TrainedTensor, width: int) -> int:
    """Return Muon's one momentum of a hidden matrix, AdamW's two of everything else (torch.optim.Muon 2.13)."""
    return tensor.numel * width * (1 if tensor.is_hidden_matrix else 2)


def low_rank(tensor: TrainedTensor, width: int) -> int:
    """Return two moments of the projected gradient and the projection itself; AdamW's states outside of hidden matrices.

    (galore-torch 1.0 ``galore_projector.py`` and apollo-torch 1.0.3 ``random_projector.py``, ``proj_type`` std.)
    """
    if not tensor.is_hidden_matrix:
        return 2 * tensor.numel * width
    rank = min(LOW_RANK, *tensor.shape)
    return (2 * rank * max(tensor.shape) + rank * min(tensor.shape)) * width


def low_rank_with_norm(tensor: TrainedTensor, width: int) -> int:
    """Return APOLLO's states: those of a low rank, and the norm of the last scaled gradient."""
    return low_rank(tensor, width) + (width if tensor.is_hidden_matrix else 0)


def no_temporaries(_: Sequence[TrainedTensor], __: int) -> int:
    """Return nothing: the kernel works in place."""
    return 0


def lists(tensors: Sequence[TrainedTensor], width: int, *, count: int) -> int:
    """Return ``count`` lists of tensors as large as all weights (torch.optim's foreach implementations)."""
    return count * width * sum(tensor.numel * tensor.count for tensor in tensors)


def one_by_one(tensors: Sequence[TrainedTensor], width: int) -> int:
    """Return the most that AdamW's loop holds: root and quotient of a tensor, beside the quotient of the one before.

    That one's name, ``denom``, is bound anew only when the quotient is there (torch.optim 2.13, ``_single_tensor_adam``).
    """
    return width * max(2 * tensor.numel + before for tensor, before in zip(tensors, _before(tensors), strict=True))


def _before(tensors: Sequence[TrainedTensor]) -> Iterator[int]:
    """Yield the elements of the largest tensor that comes right before each: a block's first follows its last as well."""
    last = 0
    for _, alike in groupby(tensors, key=attrgetter("count")):
        block = tuple(alike)
        again = block[-1].numel if block[-1].count > 1 else 0
        for tensor in block:
            yield max(last, again)
            last, again = tensor.numel, 0


def adafactor_step(tensors: Sequence[TrainedTensor], width: int) -> int:
    """Return the fp32 tensors of Adafactor's loop: two of its tensor, casts of gradient and weights, and the last update.

    The squared gradient is alive while the update of the tensor before it still has a name (transformers 5.23).
    """
    casts = 0 if width == FP32 else 2
    before = [tensors[0], *tensors[:-1]]
    return FP32 * max(
        (2 + casts) * tensor.numel + max(last.numel, tensor.numel if tensor.count > 1 else 0)
        for tensor, last in zip(tensors, before, strict=True)
    )


def muon_step(tensors: Sequence[TrainedTensor], width: int) -> int:
    """Return the larger of Muon's orthogonalisation of one matrix and foreach AdamW's roots of all other tensors.

    ``update`` in the weights' dtype, old and new iterate in bf16, two products of the smaller side (torch.optim.Muon 2.13).
    """
    others = [tensor for tensor in tensors if not tensor.is_hidden_matrix]
    matrices = [
        tensor.numel * (width + 2 + 2) + 2 * 2 * min(tensor.shape) ** 2 for tensor in tensors if tensor.is_hidden_matrix
    ]
    return max(lists(others, width, count=1), *matrices, 0)


def galore_step(tensors: Sequence[TrainedTensor], width: int) -> int:
    """Return the largest tensor's need: the singular value decomposition of its gradient, else square root and quotient.

    Decomposed every 200 steps in fp32: cast, working copy, left and right vectors (galore-torch 1.0, ``torch.linalg.svd``).
    """
    return max(_decomposed(tensor, width) if tensor.is_hidden_matrix else 2 * tensor.numel * width for tensor in tensors)


def _decomposed(tensor: TrainedTensor, width: int) -> int:
    rows, columns = tensor.shape
    vectors = (rows + columns) * min(rows, columns)
    copies = 1 if width == FP32 else 2
    return FP32 * (copies * tensor.numel + vectors)


def apollo_step(tensors: Sequence[TrainedTensor], width: int) -> int:
    """Return the largest tensor's need: its scaled gradient before and after the limiter, else square root and quotient."""
    return max(
        (2 * tensor.numel + (3 * LOW_RANK * max(tensor.shape) if tensor.is_hidden_matrix else 0)) * width for tensor in tensors
    )
