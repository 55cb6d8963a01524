"""Byte rules of optimizer states and of step temporaries.

A rule of states takes one tensor and the bytes per element of the weights that are stepped (the
master copy where there is one). A rule of temporaries takes all tensors of a rank in order, since
some hold those of the tensor before.
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
"""Smaller tensors keep 32-bit states (bitsandbytes ``optim/optimizer.py``, ``min_8bit_size``);
torchao follows it.
"""
BITSANDBYTES_BLOCK = 256
"""Elements per fp32 absmax (bitsandbytes ``optim/optimizer.py``, block-wise states)."""
PAGED_ELEMENTS = 100_000
"""Tensors from here on have their states in managed memory (bitsandbytes ``get_state_buffer``)."""
QMAP_BYTES = 256 * FP32
"""One map from 8-bit codes to values; bitsandbytes shares it, torchao has one per state."""
LOW_RANK = 128
"""Rank of GaLore's and APOLLO's projections in the HF Trainer (transformers 5.23
``trainer_optimizer.py``).
"""


def compute_elementwise(tensor: TrainedTensor, width: int, *, num_states: int) -> int:
    """Return the bytes of states of the tensor's own shape.

    They have the dtype of the weights (torch.optim 2.13, ``zeros_like``).
    """
    return tensor.numel * num_states * width


def compute_elementwise_fp32(tensor: TrainedTensor, _: int, *, num_states: int) -> int:
    """Return the bytes of fp32 states of the tensor's own shape.

    The dtype of the weights does not matter (bitsandbytes' 32-bit optimizers).
    """
    return tensor.numel * num_states * FP32


def compute_blockwise_8bit(tensor: TrainedTensor, _: int, *, num_states: int) -> int:
    """Return the bytes of 8-bit states with an absmax per block.

    States are fp32 below 4096 elements (bitsandbytes).
    """
    if tensor.numel < BITSANDBYTES_MIN_ELEMENTS:
        return tensor.numel * num_states * FP32
    return num_states * (tensor.numel + ceil_div(tensor.numel, BITSANDBYTES_BLOCK) * FP32)


def compute_managed(tensor: TrainedTensor, width: int, *, rule: StateRule, bytes_each: int) -> int:
    """Return the bytes that paged states leave in the allocator.

    They are all of small tensors, else the absmax of the blocks alone.
    """
    state_bytes: int = rule(tensor, width)
    return state_bytes if tensor.numel < PAGED_ELEMENTS else state_bytes - tensor.numel * bytes_each


def compute_packed(tensor: TrainedTensor, width: int, *, bits: int, block: int) -> int:
    """Return the bytes of two states of ``bits`` per element.

    Each has an fp32 scale per block and a table; tensors that do not fit have the weights' dtype.
    (torchao 0.18 ``optim/adam.py`` ``_new_buffer``: from 4096 elements on, and only whole blocks.)
    """
    numel = tensor.numel
    if numel < BITSANDBYTES_MIN_ELEMENTS or numel % block:
        return 2 * numel * width
    return 2 * (numel * bits // 8 + numel // block * FP32 + (1 << bits) * FP32)


def compute_rows_and_columns(tensor: TrainedTensor, _: int) -> int:
    """Return the bytes of Adafactor's states.

    They are fp32 row and column means, all elements of a vector, and the root mean square of the
    weights (transformers 5.23 ``optimization.py`` ``Adafactor`` without ``beta1``, as the HF
    Trainer makes it).
    """
    if len(tensor.shape) < 2:  # noqa: PLR2004 - a matrix has two dimensions
        return (tensor.numel + 1) * FP32
    *outer, rows, columns = tensor.shape
    leading = tensor.numel // (rows * columns) if outer else 1
    return (leading * (rows + columns) + 1) * FP32


def compute_momentum_or_adamw(tensor: TrainedTensor, width: int) -> int:
    """Return the bytes of Muon's states (torch.optim.Muon 2.13).

    They are one momentum of a hidden matrix, and AdamW's two of everything else.
    """
    return tensor.numel * width * (1 if tensor.is_hidden_matrix else 2)


def compute_low_rank(tensor: TrainedTensor, width: int) -> int:
    """Return the bytes of a low-rank optimizer's states.

    They are two moments of the projected gradient and the projection itself; AdamW's states outside
    of hidden matrices. (galore-torch 1.0 ``galore_projector.py`` and apollo-torch 1.0.3
    ``random_projector.py``, ``proj_type`` std.)
    """
    if not tensor.is_hidden_matrix:
        return 2 * tensor.numel * width
    rank = min(LOW_RANK, *tensor.shape)
    return (2 * rank * max(tensor.shape) + rank * min(tensor.shape)) * width


def compute_low_rank_with_norm(tensor: TrainedTensor, width: int) -> int:
    """Return the bytes of APOLLO's states.

    They are those of a low rank, and the norm of the last scaled gradient.
    """
    return compute_low_rank(tensor, width) + (width if tensor.is_hidden_matrix else 0)


def no_temporaries(_: Sequence[TrainedTensor], __: int) -> int:
    """Return zero: the kernel works in place."""
    return 0


def compute_lists(tensors: Sequence[TrainedTensor], width: int, *, count: int) -> int:
    """Return the bytes of ``count`` lists of tensors.

    Each list is as large as all weights (torch.optim's foreach implementations).
    """
    return count * width * sum(tensor.numel * tensor.count for tensor in tensors)


def compute_one_by_one(tensors: Sequence[TrainedTensor], width: int) -> int:
    """Return the highest bytes of AdamW's loop.

    They are root and quotient of a tensor, beside the quotient of the one before. That one's name,
    ``denom``, is bound anew only when the quotient is there (torch.optim 2.13,
    ``_single_tensor_adam``).
    """
    return width * max(
        2 * tensor.numel + previous
        for tensor, previous in zip(tensors, _iter_previous_numels(tensors), strict=True)
    )


def _iter_previous_numels(tensors: Sequence[TrainedTensor]) -> Iterator[int]:
    """Yield the elements of the largest tensor right before each.

    A block's first tensor follows its last as well.
    """
    last = 0
    for _, members in groupby(tensors, key=attrgetter("count")):
        block = tuple(members)
        repeated = block[-1].numel if block[-1].count > 1 else 0
        for tensor in block:
            yield max(last, repeated)
            last, repeated = tensor.numel, 0


def compute_adafactor_step(tensors: Sequence[TrainedTensor], width: int) -> int:
    """Return the bytes of fp32 tensors of Adafactor's loop.

    They are two of its tensor, casts of gradient and weights, and the last update. The squared
    gradient is alive while the update of the tensor before it still has a name (transformers 5.23).
    """
    casts = 0 if width == FP32 else 2
    previous = [tensors[0], *tensors[:-1]]
    return FP32 * max(
        (2 + casts) * tensor.numel + max(last.numel, tensor.numel if tensor.count > 1 else 0)
        for tensor, last in zip(tensors, previous, strict=True)
    )


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
    return max(compute_lists(other_tensors, width, count=1), *matrices, 0)


def compute_galore_step(tensors: Sequence[TrainedTensor], width: int) -> int:
    """Return the bytes that the largest tensor needs in GaLore's step.

    They are those of the singular value decomposition of its gradient, else of square root and
    quotient. Decomposed every 200 steps in fp32: cast, working copy, left and right vectors
    (galore-torch 1.0, ``torch.linalg.svd``).
    """
    return max(
        _compute_decomposition(tensor, width)
        if tensor.is_hidden_matrix
        else 2 * tensor.numel * width
        for tensor in tensors
    )


def _compute_decomposition(tensor: TrainedTensor, width: int) -> int:
    rows, columns = tensor.shape
    vectors = (rows + columns) * min(rows, columns)
    copies = 1 if width == FP32 else 2
    return FP32 * (copies * tensor.numel + vectors)


def compute_apollo_step(tensors: Sequence[TrainedTensor], width: int) -> int:
    """Return the bytes that the largest tensor needs in APOLLO's step.

    They are those of its scaled gradient before and after the limiter, else of square root and
    quotient.
    """
    return max(
        (2 * tensor.numel + (3 * LOW_RANK * max(tensor.shape) if tensor.is_hidden_matrix else 0))
        * width
        for tensor in tensors
    )
