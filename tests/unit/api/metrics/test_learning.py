"""What was learnt, as Prometheus reads it."""

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from service.api.metrics.learning import collect_learning_metrics
from service.db.records.stored import (
    CalibrationAge,
    ClassAccuracy,
    ErrorCount,
    ErrorSummary,
    IntervalMisses,
)
from service.usecases.learning.accuracy import LearningStatistics

LEARNT = LearningStatistics(
    errors=tuple(
        ErrorCount(
            kind="training",
            quantity="allocated",
            when="before",
            place=place,
            count=count,
            total=0.1,
        )
        for place, count in ((0, 2), (3, 1), (11, 1))
    ),
    promises=(
        IntervalMisses(
            kind="training", quantity="allocated", environment="", measured=7, outside=2
        ),
    ),
    classes=(
        ClassAccuracy(
            kind="training",
            quantity="allocated",
            count=4,
            before=ErrorSummary(median=0.01, p95=0.2, bias=-0.05, coverage=0.9, width=0.3),
            after=ErrorSummary(median=0.002, p95=0.04, bias=0.0, coverage=None, width=None),
        ),
    ),
    drifting={("training", "allocated"): 1},
    keys=(CalibrationAge(quantity="allocated", num_keys=4, newest_s=60.0),),
)


class _Told(Collector):
    def collect(self) -> list[Metric]:
        return list(collect_learning_metrics(LEARNT))


def test_what_was_learnt_is_told() -> None:
    """Buckets add up from the smallest error to all of them, and promises are counted beside broken
    ones.
    """
    registry = CollectorRegistry()
    registry.register(_Told())

    text = generate_latest(registry).decode()

    labels = 'kind="training",quantity="allocated"'
    buckets = {"0.0001": 2.0, "0.001": 2.0, "0.005": 3.0, "+Inf": 4.0}
    for bound, count in buckets.items():
        line = (
            'headroom_estimate_error_bucket{kind="training",le="%s",quantity="allocated",when="before"} '  # noqa: E501
            "%s"
        )
        assert line % (bound, count) in text
    assert f"headroom_calibration_promises_total{{{labels}}} 7.0" in text
    assert f"headroom_calibration_surprises_total{{{labels}}} 2.0" in text
    assert f"headroom_calibration_drifting{{{labels}}} 1.0" in text
    assert 'headroom_calibrations{quantity="allocated"} 4.0' in text
    assert 'headroom_calibration_age_seconds{quantity="allocated"} 60.0' in text


def test_each_class_has_its_errors_before_and_after() -> None:
    """Median, 95th percentile, bias, coverage and width stand side by side; where no answer gave an
    interval there is none.
    """
    registry = CollectorRegistry()
    registry.register(_Told())

    lines = generate_latest(registry).decode().splitlines()

    labels = 'kind="training",quantity="allocated"'
    assert f"headroom_estimate_measurements{{{labels}}} 4.0" in lines
    for name, before, after in (
        ("error_median", 0.01, 0.002),
        ("error_p95", 0.2, 0.04),
        ("bias", -0.05, 0.0),
    ):
        assert f'headroom_estimate_{name}_ratio{{{labels},when="before"}} {before}' in lines
        assert f'headroom_estimate_{name}_ratio{{{labels},when="after"}} {after}' in lines
    assert f'headroom_estimate_coverage_ratio{{{labels},when="before"}} 0.9' in lines
    assert not [
        line
        for line in lines
        if line.startswith("headroom_estimate_coverage_ratio") and 'when="after"' in line
    ]
