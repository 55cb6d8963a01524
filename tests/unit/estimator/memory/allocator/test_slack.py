"""Memory that the allocator loses in holes, where nothing is replayed."""

import pytest

from service.estimator.memory.allocator.slack import estimate_ratio_slack, estimate_serving_slack
from service.estimator.values.workload import Allocator


@pytest.mark.parametrize("kind", Allocator)
def test_a_replica_loses_less_than_a_training_job(kind: Allocator) -> None:
    """Its weights come once and stay, so that there are few holes."""
    serving, training = (
        estimate_serving_slack(10**10, kind),
        estimate_ratio_slack(10**10, kind, gathers=False),
    )

    assert 0 <= serving.low < serving.point < serving.high
    assert serving.point < training.point
    assert serving.high < training.high
