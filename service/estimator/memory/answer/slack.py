"""Bytes that the allocator reserves beyond the tensors of an estimate."""

from service.estimator.memory.allocator.slack import (
    add_stream_pools,
    estimate_ratio_slack,
    estimate_serving_slack,
    get_replayed_slack,
)
from service.estimator.memory.answer.partial_estimate import PartialEstimate
from service.estimator.memory.overheads.overheads import Overhead


def compute_slack(partial_estimate: PartialEstimate, level: float) -> Overhead:
    """Return them, replayed or by their ratio in traces."""
    allocated, kind = partial_estimate.peak.allocated_bytes, partial_estimate.allocator
    if partial_estimate.stream_bytes:
        return add_stream_pools(
            estimate_ratio_slack(allocated, kind, gathers=False, level=level),
            partial_estimate.stream_bytes,
        )
    if partial_estimate.replayed is not None:
        return get_replayed_slack(partial_estimate.replayed)
    if partial_estimate.kind == "inference":
        return estimate_serving_slack(allocated, kind, level=level)
    return estimate_ratio_slack(allocated, kind, gathers=partial_estimate.gathers, level=level)
