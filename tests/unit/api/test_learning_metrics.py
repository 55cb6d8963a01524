"""What was learnt, as Prometheus reads it."""

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from service.api.learning_metrics import learning_metrics
from service.db.values import ErrorCount, Surprises
from service.usecases.accuracy import Learnt

LEARNT = Learnt(
    errors=tuple(
        ErrorCount(kind="training", quantity="allocated", when="before", place=place, count=count, total=0.1)
        for place, count in ((0, 2), (3, 1), (11, 1))
    ),
    promises=(Surprises(kind="training", quantity="allocated", environment="", measured=7, outside=2),),
    num_drifting=1,
    num_keys={"allocated": 4},
)


class _Told(Collector):
    def collect(self) -> list[Metric]:
        return list(learning_metrics(LEARNT))


def test_what_was_learnt_is_told() -> None:
    """Buckets add up from the smallest error to all of them, and promises are counted beside broken ones."""
    registry = CollectorRegistry()
    registry.register(_Told())

    text = generate_latest(registry).decode()

    labels = 'kind="training",quantity="allocated"'
    buckets = {"0.0001": 2.0, "0.001": 2.0, "0.005": 3.0, "+Inf": 4.0}
    for bound, count in buckets.items():
        line = 'headroom_estimate_error_bucket{kind="training",le="%s",quantity="allocated",when="before"} %s'
        assert line % (bound, count) in text
    assert f"headroom_calibration_promises_total{{{labels}}} 7.0" in text
    assert f"headroom_calibration_surprises_total{{{labels}}} 2.0" in text
    assert "headroom_calibration_drifting 1.0" in text
    assert 'headroom_calibrations{quantity="allocated"} 4.0' in text
