"""What /metrics shows of what was learnt: errors before and after, promises that were kept and broken, keys."""

from collections.abc import Iterator, Sequence
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeHistogramMetricFamily, GaugeMetricFamily, Metric

from service.usecases.access import ErrorCount
from service.usecases.accuracy import ERROR_BOUNDS, Learnt


def learning_metrics(learnt: Learnt) -> Iterator[Metric]:
    """Yield every metric; errors are told anew whenever a key learns, so that they are no counters."""
    yield _errors(learnt.errors)
    labels = ("kind", "quantity")
    promised = CounterMetricFamily(
        "headroom_calibration_promises", "Measurements that were promised an interval.", labels=labels
    )
    broken = CounterMetricFamily("headroom_calibration_surprises", "Of these, those outside of it.", labels=labels)
    for one in learnt.promises:
        promised.add_metric((one.kind, one.quantity), one.measured)
        broken.add_metric((one.kind, one.quantity), one.outside)
    yield promised
    yield broken
    drifting = GaugeMetricFamily(
        "headroom_calibration_drifting", "Environments where more lies outside of intervals than their level lets expect."
    )
    drifting.add_metric((), learnt.num_drifting)
    yield drifting
    keys = GaugeMetricFamily("headroom_calibrations", "Keys that were calibrated.", labels=("quantity",))
    for quantity, count in learnt.num_keys.items():
        keys.add_metric((quantity,), count)
    yield keys


def _errors(counts: Sequence[ErrorCount]) -> Metric:
    family = GaugeHistogramMetricFamily(
        "headroom_estimate_error",
        "Absolute relative errors of answers, before calibration and after it with the measurement held out.",
        labels=("kind", "quantity", "when"),
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
