"""The attention kernel is the one that CUDA would choose."""

import pytest

from service.estimator.values.workload import Attention
from worker.probes.attention.names import AttentionShape, Kernel, select_cuda_kernel


@pytest.mark.parametrize(
    ("head_dim", "grouped", "half_precision", "masked", "expected"),
    [
        (64, True, True, False, Kernel.FLASH),
        (256, False, True, False, Kernel.FLASH),
        (512, False, True, False, Kernel.EFFICIENT),
        (64, True, True, True, Kernel.EFFICIENT),
        (64, True, False, False, Kernel.MATH),
        (64, False, False, False, Kernel.EFFICIENT),
        (64, True, False, True, Kernel.EFFICIENT),
    ],
)
def test_sdpa_is_what_cuda_would_choose(
    *,
    head_dim: int,
    grouped: bool,
    half_precision: bool,
    masked: bool,
    expected: Kernel,
) -> None:
    """Half precision without a mask is flash; grouped fp32 falls to the math kernel (seen in 276
    traced runs).
    """
    shape = AttentionShape(
        head_dim=head_dim, grouped=grouped, half_precision=half_precision, masked=masked
    )

    assert select_cuda_kernel(Attention.SDPA, shape) is expected


@pytest.mark.parametrize(
    "attention", [Attention.EAGER, Attention.FLASH, Attention.EFFICIENT, Attention.MATH]
)
def test_a_named_kernel_is_taken_at_its_word(attention: Attention) -> None:
    """Who names a kernel gets it."""
    shape = AttentionShape(head_dim=64, grouped=True, half_precision=True, masked=False)

    assert select_cuda_kernel(attention, shape).value == attention.value
