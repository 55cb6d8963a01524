"""What /metrics shows of what was learnt: errors before and after, promises that were kept and broken, keys.

A kind is an engine or framework, a method and whether it is sharded, so there are dozens of them at most.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeHistogramMetricFamily, GaugeMetricFamily, Metric

from service.usecases.learning.accuracy import ERROR_BOUNDS, Learnt
from service.usecases.stored import ClassAccuracy, ErrorCount, ErrorSummary

_CLASS = ("kind", "quantity")
_SUMMARIES: tuple[tuple[str, str, Callable[[ErrorSummary], float | None]], ...] = (
    ("error_median", "Median of the absolute relative error.", lambda one: one.median),
    ("error_p95", "95th percentile of the absolute relative error.", lambda one: one.p95),
    ("bias", "Mean of the relative error with its sign.", lambda one: one.bias),
    ("coverage", "Share of measurements inside of their interval of level 0.95.", lambda one: one.coverage),
    ("interval_width", "Mean width of intervals over what was measured.", lambda one: one.width),
)


def learning_metrics(learnt: Learnt) -> Iterator[Metric]:
    """Yield every metric; errors are told anew whenever a key learns, so that they are no counters."""
    yield _errors(learnt.errors)
    yield from _summaries(learnt.classes)
    yield from _promises(learnt)
    drifting = GaugeMetricFamily(
        "headroom_calibration_drifting",
        "Environments where more lies outside of intervals than their level lets expect.",
        labels=_CLASS,
    )
    for one in learnt.promises:
        drifting.add_metric((one.kind, one.quantity), learnt.drifting.get((one.kind, one.quantity), 0))
    yield drifting
    keys = GaugeMetricFamily("headroom_calibrations", "Keys that were calibrated.", labels=("quantity",))
    age = GaugeMetricFamily("headroom_calibration_age_seconds", "Seconds since something was learnt.", labels=("quantity",))
    for found in learnt.keys:
        keys.add_metric((found.quantity,), found.num_keys)
        age.add_metric((found.quantity,), found.newest_s)
    yield keys
    yield age


def _promises(learnt: Learnt) -> Iterator[Metric]:
    promised = CounterMetricFamily(
        "headroom_calibration_promises", "Measurements that were promised an interval.", labels=_CLASS
    )
    broken = CounterMetricFamily("headroom_calibration_surprises", "Of these, those outside of it.", labels=_CLASS)
    for one in learnt.promises:
        promised.add_metric((one.kind, one.quantity), one.measured)
        broken.add_metric((one.kind, one.quantity), one.outside)
    yield promised
    yield broken


def _summaries(classes: Sequence[ClassAccuracy]) -> Iterator[Metric]:
    counted = GaugeMetricFamily("headroom_estimate_measurements", "Measurements beside answers.", labels=_CLASS)
    for found in classes:
        counted.add_metric((found.kind, found.quantity), found.count)
    yield counted
    for name, text, read in _SUMMARIES:
        family = GaugeMetricFamily(f"headroom_estimate_{name}_ratio", text, labels=(*_CLASS, "when"))
        for found in classes:
            for when, summary in (("before", found.before), ("after", found.after)):
                value = read(summary)
                if value is not None:
                    family.add_metric((found.kind, found.quantity, when), value)
        yield family


def _errors(counts: Sequence[ErrorCount]) -> Metric:
    family = GaugeHistogramMetricFamily(
        "headroom_estimate_error",
        "Absolute relative errors of answers, before calibration and after it with the measurement held out.",
        labels=(*_CLASS, "when"),
    )
    by_class: dict[tuple[str, str, str], list[ErrorCount]] = {}
    for one in counts:
        by_class.setdefault((one.kind, one.quantity, one.when), []).append(one)
    bounds = [*map(str, ERROR_BOUNDS), "+Inf"]
    for labels, found in by_class.items():
        counted = {one.place: one.count for one in found}
        cumulative = accumulate(counted.get(place, 0) for place in range(len(bounds)))
        family.add_metric(labels, list(zip(bounds, cumulative, strict=True)), sum(one.total for one in found))
    return family
