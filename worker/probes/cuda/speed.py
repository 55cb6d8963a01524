"""How fast this GPU multiplies and rewrites memory, so that a plan knows what time it has."""

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
class Ruler:
    """What is multiplied and copied: matrices of 32 to 64 MiB fill any GPU of today and take a thousandth of a second."""

    matrix_size: int = 4096
    num_copied: int = 2**26


def matrix_flops(driver: Driver, dtype: DType, ruler: Ruler) -> float:
    """Return the FLOP per second of square products of random matrices (zeros run faster than anything real)."""
    size = ruler.matrix_size
    torch_dtype = TORCH_DTYPES.get(dtype, torch.float32)
    left, right = (torch.randn(size, size, device=driver.device).to(torch_dtype) for _ in range(2))
    out = torch.empty_like(left)
    return 2 * size**3 / _seconds(driver, lambda: torch.mm(left, right, out=out))


def copied_bytes_per_second(driver: Driver, ruler: Ruler) -> float:
    """Return the bytes that a copy reads and writes per second."""
    source = torch.ones(ruler.num_copied, device=driver.device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / _seconds(driver, lambda: target.copy_(source))


def _seconds(driver: Driver, work: Callable[[], object]) -> float:
    for _ in range(_NUM_WARM):
        work()
    driver.finish()
    spans = []
    for _ in range(_NUM_TIMED):
        begin = driver.now()
        work()
        spans.append((begin, driver.now()))
    driver.finish()
    return median(driver.seconds(begin, end) for begin, end in spans)
