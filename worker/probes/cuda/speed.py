"""Speed of matrix products and copies on this GPU.

A plan estimates from it what it has time for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch

from service.estimator.values.dtypes import DType
from worker.probes.cuda.driver import Driver
from worker.probes.models.build import TORCH_DTYPES

_NUM_WARM = 3
_NUM_TIMED = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkSize:
    """Sizes of the matrices and buffers that the speed test uses.

    Matrices of 32 to 64 MiB fill any GPU of today and take a thousandth of a second.
    """

    matrix_size: int = 4096
    num_copied: int = 2**26


def measure_matrix_flops(driver: Driver, dtype: DType, size: BenchmarkSize) -> float:
    """Return the FLOP per second of square matrix products.

    The matrices are random: zeros run faster than anything real.
    """
    matrix_size = size.matrix_size
    torch_dtype = TORCH_DTYPES.get(dtype, torch.float32)
    left, right = (
        torch.randn(matrix_size, matrix_size, device=driver.device).to(torch_dtype)
        for _ in range(2)
    )
    out = torch.empty_like(left)
    return 2 * matrix_size**3 / _measure_seconds(driver, lambda: torch.mm(left, right, out=out))


def measure_copy_speed(driver: Driver, size: BenchmarkSize) -> float:
    """Return the bytes that a copy reads and writes per second."""
    source = torch.ones(size.num_copied, device=driver.device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / _measure_seconds(driver, lambda: target.copy_(source))


def _measure_seconds(driver: Driver, work: Callable[[], object]) -> float:
    for _ in range(_NUM_WARM):
        work()
    driver.finish()
    intervals = []
    for _ in range(_NUM_TIMED):
        begin = driver.record_event()
        work()
        intervals.append((begin, driver.record_event()))
    driver.finish()
    return median(driver.seconds(begin, end) for begin, end in intervals)
