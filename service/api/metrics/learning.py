"""Calibration metrics: errors before and after, interval coverage, keys.

A kind is an engine or framework, a method and whether it is sharded, so there are dozens of them at
most.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeHistogramMetricFamily,
    GaugeMetricFamily,
    Metric,
)

from service.usecases.learning.accuracy import ERROR_BOUNDS, LearningStatistics
from service.usecases.stored import ClassAccuracy, ErrorCount, ErrorSummary

_CLASS = ("kind", "quantity")
_SUMMARIES: tuple[tuple[str, str, Callable[[ErrorSummary], float | None]], ...] = (
    ("error_median", "Median of the absolute relative error.", lambda summary: summary.median),
    ("error_p95", "95th percentile of the absolute relative error.", lambda summary: summary.p95),
    ("bias", "Mean of the relative error with its sign.", lambda summary: summary.bias),
    (
        "coverage",
        "Share of measurements inside of their interval of level 0.95.",
        lambda summary: summary.coverage,
    ),
    (
        "interval_width",
        "Mean width of intervals over what was measured.",
        lambda summary: summary.width,
    ),
)


def collect_learning_metrics(learnt: LearningStatistics) -> Iterator[Metric]:
    """Yield every metric.

    Errors are computed anew whenever a key learns, so that they are no counters.
    """
    yield _build_error_histogram(learnt.errors)
    yield from _collect_summaries(learnt.classes)
    yield from _collect_promises(learnt)
    drifting = GaugeMetricFamily(
        "headroom_calibration_drifting",
        "Environments where more lies outside of intervals than their level lets expect.",
        labels=_CLASS,
    )
    for promise in learnt.promises:
        drifting.add_metric(
            (promise.kind, promise.quantity),
            learnt.drifting.get((promise.kind, promise.quantity), 0),
        )
    yield drifting
    keys = GaugeMetricFamily(
        "headroom_calibrations", "Keys that were calibrated.", labels=("quantity",)
    )
    age = GaugeMetricFamily(
        "headroom_calibration_age_seconds",
        "Seconds since something was learnt.",
        labels=("quantity",),
    )
    for calibration in learnt.keys:
        keys.add_metric((calibration.quantity,), calibration.num_keys)
        age.add_metric((calibration.quantity,), calibration.newest_s)
    yield keys
    yield age


def _collect_promises(learnt: LearningStatistics) -> Iterator[Metric]:
    promised = CounterMetricFamily(
        "headroom_calibration_promises",
        "Measurements that were promised an interval.",
        labels=_CLASS,
    )
    broken = CounterMetricFamily(
        "headroom_calibration_surprises", "Of these, those outside of it.", labels=_CLASS
    )
    for promise in learnt.promises:
        promised.add_metric((promise.kind, promise.quantity), promise.measured)
        broken.add_metric((promise.kind, promise.quantity), promise.outside)
    yield promised
    yield broken


def _collect_summaries(classes: Sequence[ClassAccuracy]) -> Iterator[Metric]:
    counted = GaugeMetricFamily(
        "headroom_estimate_measurements", "Measurements beside answers.", labels=_CLASS
    )
    for accuracy in classes:
        counted.add_metric((accuracy.kind, accuracy.quantity), accuracy.count)
    yield counted
    for name, text, read in _SUMMARIES:
        family = GaugeMetricFamily(
            f"headroom_estimate_{name}_ratio", text, labels=(*_CLASS, "when")
        )
        for accuracy in classes:
            for when, summary in (("before", accuracy.before), ("after", accuracy.after)):
                value = read(summary)
                if value is not None:
                    family.add_metric((accuracy.kind, accuracy.quantity, when), value)
        yield family


def _build_error_histogram(counts: Sequence[ErrorCount]) -> Metric:
    family = GaugeHistogramMetricFamily(
        "headroom_estimate_error",
        "Absolute relative errors of answers, before calibration and after it with the measurement "
        "held out.",
        labels=(*_CLASS, "when"),
    )
    by_class: dict[tuple[str, str, str], list[ErrorCount]] = {}
    for bucket in counts:
        by_class.setdefault((bucket.kind, bucket.quantity, bucket.when), []).append(bucket)
    bounds = [*map(str, ERROR_BOUNDS), "+Inf"]
    for labels, buckets in by_class.items():
        counted = {bucket.place: bucket.count for bucket in buckets}
        cumulative = accumulate(counted.get(place, 0) for place in range(len(bounds)))
        family.add_metric(
            labels,
            list(zip(bounds, cumulative, strict=True)),
            sum(bucket.total for bucket in buckets),
        )
    return family
