"""Products in fp32 pieces are the same products, and make the same tensors."""

import pytest
import torch

from worker.probes.cpu.matmul_rate import use_fp32_products
from worker.probes.run.recorder import mark, record_allocations


def _operands(rows: int, inner: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    left = torch.randn(rows, inner, generator=generator).bfloat16()
    return left, torch.randn(inner, columns, generator=generator).bfloat16()


@pytest.mark.parametrize("shape", [(300, 7, 11), (7, 300, 11), (7, 11, 300), (1, 1, 1)])
def test_products_are_right_whichever_side_is_longest(shape: tuple[int, int, int]) -> None:
    """Pieces along rows, columns or the inner side give the product of the exact operands, rounded
    once.
    """
    left, right = _operands(*shape)

    with use_fp32_products():
        found = left @ right

    torch.testing.assert_close(found.float(), left.float() @ right.float(), rtol=1e-2, atol=1e-1)


@pytest.mark.parametrize("shape", [(800_000, 2, 3), (2, 800_000, 3), (2, 3, 800_000)])
def test_pieces_meet_at_their_borders(shape: tuple[int, int, int]) -> None:
    """Products that need several pieces miss and repeat nothing."""
    left, right = _operands(*shape)

    with use_fp32_products():
        found = left @ right

    torch.testing.assert_close(found.float(), left.float() @ right.float(), rtol=1e-2, atol=1e-1)


def test_bias_and_batches_are_multiplied_too() -> None:
    """Linear layers with a bias use addmm, and eager attention uses bmm."""
    left, right = _operands(8, 5, 6)
    bias = torch.ones(6, dtype=torch.bfloat16)
    with use_fp32_products():
        added = torch.addmm(bias, left, right)
        batched = torch.bmm(left[None], right[None])[0]

    torch.testing.assert_close(
        added.float(), left.float() @ right.float() + 1, rtol=1e-2, atol=1e-1
    )
    torch.testing.assert_close(batched.float(), left.float() @ right.float(), rtol=1e-2, atol=1e-1)


def test_full_precision_goes_its_own_way() -> None:
    """fp32 products are torch's own."""
    left, right = (operand.float() for operand in _operands(9, 8, 7))
    own = left @ right
    with use_fp32_products():
        found = left @ right

    assert torch.equal(found, own)


def test_the_same_tensors_are_made() -> None:
    """Forward and backward through a 16-bit layer hold the same live bytes with and without."""

    def peak() -> int:
        layer = torch.nn.Linear(64, 96, dtype=torch.bfloat16)
        data = torch.ones(5, 64, dtype=torch.bfloat16)
        with record_allocations() as recorded:
            mark("step")
            layer(data).sum().backward()
            mark("end")
        return next(stretch.live_peak for stretch in recorded.stretches() if stretch.name == "step")

    own = peak()
    with use_fp32_products():
        pieces = peak()

    assert own == pieces


def test_torch_is_left_as_it_was() -> None:
    """Outside, 16-bit products are torch's own again."""
    left, right = _operands(40, 30, 20)
    before = left @ right
    with use_fp32_products():
        left @ right

    assert torch.equal(left @ right, before)
