"""Which figure of an answer stands for which published quantity."""

from collections.abc import Callable, Mapping

from service.estimator.values.result import Estimate, Interval, Stage
from tests.accuracy.published.rows import PublishedCase

BLOCK_TOKENS = 16
"""Tokens of one block of vLLM's key/value cache."""

Predicted = tuple[float, float, Interval | None]
"""Lowest and highest value that the answer allows (equal, but for readings that do not say what
they count), its interval.
"""


def _allocated(answer: Estimate) -> Predicted:
    return answer.allocated_bytes, answer.allocated_bytes, answer.allocated_interval


def _reserved(answer: Estimate) -> Predicted:
    return answer.reserved_bytes, answer.reserved_bytes, answer.reserved_interval


def _device(answer: Estimate) -> Predicted:
    return answer.device_bytes, answer.device_bytes, answer.device_interval


def _unknown(answer: Estimate) -> Predicted:
    both = Interval(answer.allocated_interval.low, answer.device_interval.high)
    return answer.allocated_bytes, answer.device_bytes, both


def _steady(answer: Estimate) -> Predicted:
    return answer.steady_bytes, answer.steady_bytes, None


def _component(name: str) -> Callable[[Estimate], Predicted]:
    def read(answer: Estimate) -> Predicted:
        found = sum(component.bytes for component in answer.components if component.name == name)
        return found, found, None

    return read


def _pool(field: str, per: int = 1) -> Callable[[Estimate], Predicted | None]:
    def read(answer: Estimate) -> Predicted | None:
        value = getattr(answer.serving, field, None)
        return None if value is None else (value / per, value / per, None)

    return read


READERS: Mapping[str, Callable[[Estimate], Predicted | None]] = {
    "max_memory_allocated": _allocated,
    "active_bytes_peak": _allocated,
    "max_memory_reserved": _reserved,
    "nvidia-smi": _device,
    "nvml": _device,
    "unknown": _unknown,
    "memory_allocated_steady": _steady,
    "weights_memory": _component("weights"),
    "kv_cache_memory": _pool("kv_pool_bytes"),
    "kv_cache_tokens": _pool("kv_pool_tokens"),
    "kv_cache_blocks": _pool("kv_pool_tokens", BLOCK_TOKENS),
    "max_concurrency": _pool("max_concurrency"),
}


def predicted(case: PublishedCase, answer: Estimate, quantity: str) -> Predicted | None:
    """Return what the answer says of a quantity; nothing where it has no such figure."""
    stage = _stage(case, answer)
    if stage is not None and quantity == "max_memory_allocated":
        return stage.allocated_bytes, stage.allocated_bytes, None
    if stage is not None and quantity == "memory_allocated_steady":
        return stage.steady_bytes, stage.steady_bytes, None
    read = READERS.get(quantity)
    return None if read is None else read(answer)


def _stage(case: PublishedCase, answer: Estimate) -> Stage | None:
    if case.rank == "worst" or len(answer.stages) == 1:
        return None
    return answer.stages[-1 if case.rank == "last" else 0]
