"""Evidence that only a GPU gives: reserved bytes, context and time.

Slices of a model tell them too: what they reserved beyond their own replay is added to the full
model's, and the deepest one's time over its own analytic time scales the full model's.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import inf, log
from statistics import NormalDist

from service.calibration.apply import ONLY_PART
from service.calibration.evidence import SEGMENT_BYTES, Evidence, Quantity
from service.db.records.measurements import StoredResult
from service.estimator.cache import PlanCache
from service.estimator.memory.overheads.overheads import estimate_communicators
from service.estimator.speed.learning import MeasuredTime, correct_rates, read_speeds
from service.estimator.speed.rates import Rates, get_rates
from service.estimator.speed.throughput import estimate_throughput
from service.estimator.values.corrections import SpeedRatios
from service.estimator.values.result import Bound, Estimate, Interval, Throughput
from service.estimator.values.workload import ServeWorkload
from service.jobs.readings import StepTime
from service.usecases.learning.analytic_answers import ANY_DEVICE, AnalyticAnswer
from service.usecases.learning.slices import GpuReading, read_gpu, read_paces, read_slices

_P95 = NormalDist().inv_cdf(0.95)
_NANO = 1e9
MakeEvidence = partial[Evidence]


def collect_gpu_evidence(
    result: StoredResult,
    analytic: AnalyticAnswer,
    plans: PlanCache,
    make: MakeEvidence,
    *,
    is_lone_rank: bool = False,
) -> Iterator[Evidence]:
    """Yield what a measurement on a GPU tells beside its allocated bytes.

    One of several ranks that a probe ran alone had no communicators and sent nothing: theirs are
    added, and its time is none of the job's.
    """
    reading = read_gpu(result, analytic)
    slices = read_slices(result, analytic, plans) if result.extrapolated else ()
    if slices and reading.reserved_bytes is None:
        reading = slices[-1].extrapolate(analytic, reading)
    links_bytes = _get_links_bytes(analytic) if is_lone_rank else 0
    yield from _collect_memory_evidence(reading, analytic, make, links_bytes)
    if analytic.device is ANY_DEVICE or is_lone_rank:
        return
    throughput = _estimate_throughput(analytic, plans)
    if throughput is None:
        return
    timed = [
        (part.reading, part.analytic, answer)
        for part in slices
        if (answer := _estimate_throughput(part.analytic, plans)) is not None
    ] or [(reading, analytic, throughput)]
    readings = [(part, answer) for part, _, answer in timed]
    deepest, subject, _ = timed[-1]
    paces = [
        (part.reading.step_time_s, part.analytic) for part in read_paces(result, analytic, plans)
    ]
    steps = [(deepest.step_time_s, subject), *paces]
    yield from _collect_time_evidence(
        Quantity.STEP_TIME,
        [(part.step_time_s, answer.step_time_s) for part, answer in readings],
        throughput.step_time_s,
        partial(make, speeds=_read_speeds(steps, plans, _get_step_time)),
    )
    if throughput.prefill_time_s is not None:
        speeds = _read_speeds([(deepest.prefill_time_s, subject)], plans, _get_prefill_time)
        yield from _collect_time_evidence(
            Quantity.PREFILL_TIME,
            [(part.prefill_time_s, answer.prefill_time_s) for part, answer in readings],
            throughput.prefill_time_s,
            # Of its host the decode step of the same run tells already.
            partial(make, speeds={side: speeds[side] for side in speeds if side == Bound.GPU}),
        )


def _read_speeds(
    times: Sequence[tuple[StepTime | None, AnalyticAnswer]],
    plans: PlanCache,
    get_seconds: Callable[[Throughput], float | None],
) -> Mapping[str, float]:
    """Return what a measurement's times tell of its machine.

    Each time is of a question. By side, as a logarithm. Of several GPUs nothing: a rank that runs
    alone sends nothing.
    """
    runs = [
        MeasuredTime(seconds=time.median, predict=partial(_predict, analytic, plans, get_seconds))
        for time, analytic in times
        if time is not None and time.median > 0 and analytic.request.layout.num_gpus == 1
    ]
    return {side.value: log(ratio) for side, ratio in read_speeds(runs).items()} if runs else {}


def _predict(
    analytic: AnalyticAnswer,
    plans: PlanCache,
    get_seconds: Callable[[Throughput], float | None],
    speeds: SpeedRatios,
) -> float:
    """Return the seconds of a question on a machine; none are infinite."""
    rates = correct_rates(get_rates(analytic.device.name), speeds)
    answer = _estimate_throughput(analytic, plans, rates)
    return (None if answer is None else get_seconds(answer)) or inf


def _get_step_time(throughput: Throughput) -> float:
    return throughput.step_time_s


def _get_prefill_time(throughput: Throughput) -> float | None:
    return throughput.prefill_time_s


def _get_links_bytes(analytic: AnalyticAnswer) -> int:
    """Return the analytic bytes of communicators.

    Replicas that serve share none.
    """
    layout, workload = analytic.request.layout, analytic.request.task.workload
    is_served = isinstance(workload, ServeWorkload)
    return estimate_communicators(
        layout.num_gpus // layout.data_parallel if is_served else layout.num_gpus
    ).point


def _collect_memory_evidence(
    reading: GpuReading, analytic: AnalyticAnswer, make: MakeEvidence, links_bytes: int
) -> Iterator[Evidence]:
    predicted, reserved = analytic.estimate, reading.reserved_bytes
    if reserved is None:
        return
    outside = reading.outside_bytes
    # The allocated bytes have a correction of their own: what is learnt here is what is reserved
    # beyond them.
    slack = predicted.reserved_bytes - predicted.allocated_bytes
    yield make(
        quantity=Quantity.RESERVED,
        measured={ONLY_PART: reserved},
        predicted={ONLY_PART: reading.allocated_bytes + slack},
        spread=compute_spread(predicted.reserved_interval, predicted.reserved_bytes),
        # With less left on the device than a segment, the run had to do with what it had.
        at_capacity=reserved + (outside or 0) > analytic.device.usable_bytes - SEGMENT_BYTES,
    )
    if outside is not None and outside > 0:
        beside = predicted.device_bytes - predicted.reserved_bytes
        yield make(
            quantity=Quantity.DEVICE,
            measured={ONLY_PART: outside + links_bytes},
            predicted={ONLY_PART: beside},
            spread=compute_spread(_compute_outside_interval(predicted), beside),
        )


def _collect_time_evidence(
    quantity: Quantity,
    times: Sequence[tuple[StepTime | None, float | None]],
    predicted_s: float,
    make: MakeEvidence,
) -> Iterator[Evidence]:
    """Yield the measured time of the full model or its deepest slice.

    ``times`` are measured and analytic ones, the deepest last; ``predicted_s`` is the full model's.
    """
    known = [(time, own_s) for time, own_s in times if time is not None and own_s]
    if not known or predicted_s <= 0 or min(time.median for time, _ in known) <= 0:
        return
    ratios = [time.median / own_s for time, own_s in known]
    noise = max(log(max(time.p95, time.median) / time.median) for time, _ in known) / _P95
    # Slices that differ tell the whole model's time no better than that.
    disagreement = log(max(ratios) / min(ratios)) / 2
    yield make(
        quantity=quantity,
        measured={ONLY_PART: max(1, round(predicted_s * ratios[-1] * _NANO))},
        predicted={ONLY_PART: max(1, round(predicted_s * _NANO))},
        noise=max(noise, disagreement),
    )


def compute_spread(around: Interval, point: int) -> float:
    """Return an interval's wider half as a share of its point."""
    return max(around.high - point, point - around.low, 0) / max(point, 1)


def _compute_outside_interval(predicted: Estimate) -> Interval:
    device, reserved = predicted.device_interval, predicted.reserved_interval
    return Interval(max(0, device.low - reserved.low), device.high - reserved.high)


def _estimate_throughput(
    analytic: AnalyticAnswer, plans: PlanCache, rates: Rates | None = None
) -> Throughput | None:
    request = analytic.request
    return estimate_throughput(
        analytic.architecture,
        request.task.workload,
        request.layout,
        analytic.device,
        analytic.estimate,
        plans.works,
        rates=rates,
    )
