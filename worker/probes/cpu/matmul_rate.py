"""Matrix products of 16-bit tensors in fp32 pieces.

They are for processors that would emulate them at a tenth of the speed. The kernels below stand in
for torch's own at the very bottom, under autograd: the tensors that are made and kept are the same,
and the fp32 pieces are scratch of one kernel, as they are inside oneDNN.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_HALF = (torch.bfloat16, torch.float16)
_PIECE_ELEMENTS = 2**20
"""Elements of the largest fp32 copy that is made at once.

They are 4 MiB, which malloc keeps and does not map anew each time.
"""


@contextmanager
def use_fp32_products() -> Iterator[None]:
    """Multiply 16-bit matrices in fp32 pieces within a block.

    Does nothing where this processor multiplies them itself.
    """
    if torch.cpu._is_avx512_bf16_supported():  # noqa: SLF001 - torch has no public name for it
        yield
        return
    with torch.library._scoped_library("aten", "IMPL") as library:  # noqa: SLF001 - the one that unregisters at the end
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", UserWarning
            )  # torch warns that the kernels are replaced, which is the point
            library.impl("mm", _mm, "CPU")
            library.impl("addmm", _addmm, "CPU")
            library.impl("bmm", _bmm, "CPU")
        yield


def _mm(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    out = left.new_empty((left.shape[0], right.shape[1]))
    if left.dtype not in _HALF:
        return torch.mm(left, right, out=out)
    return _multiply_into(out, left, right)


def _addmm(
    bias: torch.Tensor,
    left: torch.Tensor,
    right: torch.Tensor,
    beta: float = 1,
    alpha: float = 1,
) -> torch.Tensor:
    out = left.new_empty((left.shape[0], right.shape[1]))
    if left.dtype not in _HALF:
        return torch.addmm(bias, left, right, beta=beta, alpha=alpha, out=out)
    _multiply_into(out, left, right)
    if alpha != 1:
        out.mul_(alpha)
    return out.add_(bias, alpha=beta)


def _bmm(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    out = left.new_empty((left.shape[0], left.shape[1], right.shape[2]))
    if left.dtype not in _HALF:
        return torch.bmm(left, right, out=out)
    for matrix, left_matrix, right_matrix in zip(out, left, right, strict=True):
        _multiply_into(matrix, left_matrix, right_matrix)
    return out


def _multiply_into(out: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Multiply along the longest side in pieces.

    So no fp32 copy of a full weight is made.
    """
    (rows, inner), columns = left.shape, right.shape[1]
    if rows >= max(inner, columns):
        wide = right.float()
        for piece in _iter_pieces(rows, max(inner, columns)):
            out[piece] = torch.mm(left[piece].float(), wide, out=wide.new_empty((0,)))
    elif columns >= inner:
        wide = left.float()
        for piece in _iter_pieces(columns, max(rows, inner)):
            out[:, piece] = torch.mm(wide, right[:, piece].float(), out=wide.new_empty((0,)))
    else:
        total = torch.zeros(rows, columns)
        for piece in _iter_pieces(inner, max(rows, columns)):
            total.addmm_(left[:, piece].float(), right[piece].float())
        out.copy_(total)
    return out


def _iter_pieces(length: int, other_length: int) -> Iterator[slice]:
    step = max(1, _PIECE_ELEMENTS // max(1, other_length))
    for start in range(0, length, step):
        yield slice(start, min(length, start + step))
