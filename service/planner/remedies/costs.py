"""Cost of a configuration: GPU time per token, and its price."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from service.estimator.speed.serving import reads_host
from service.estimator.values.result import Estimate, Throughput
from service.estimator.values.workload import ServeWorkload
from service.planner.fit.evaluator import Config, Evaluator, is_timed
from service.planner.fit.remedy import RemedyCost
from service.planner.fit.time_lower_bound import seconds_per_token

Prices = Mapping[str, float]
"""USD per GPU hour, by the GPU's name."""
NO_PRICES: Prices = MappingProxyType({})
_MILLION, _SECONDS_PER_HOUR = 10**6, 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedConfig:
    """Time of a configuration, estimated and by arithmetic alone.

    ``arithmetic`` is one GPU's seconds per token, in units of the GPU's own where its rates are
    unknown; the throughput is None then. ``predicted`` is the throughput without what was measured
    of this very configuration, ``is_timed`` says whether there is any.
    """

    gpu: str
    num_gpus: int
    throughput: Throughput | None
    predicted: Throughput | None
    is_timed: bool
    arithmetic: float
    usd_per_gpu_hour: float | None
    reads_host: bool = False
    """Whether every token reads weights in the host's memory, which takes time of its own."""


def time_config(
    evaluator: Evaluator, config: Config, estimate: Estimate, prices: Prices = NO_PRICES
) -> TimedConfig:
    """Return the time of a configuration on a GPU, with its price."""
    workload, layout = config
    if isinstance(workload, ServeWorkload):
        # A replica that serves fewer sequences at once needs that many more rounds.
        arithmetic = layout.num_gpus / workload.num_sequences
    else:
        arithmetic = seconds_per_token(evaluator, workload, layout)
    return TimedConfig(
        gpu=evaluator.device.name,
        num_gpus=layout.num_gpus,
        throughput=evaluator.get_throughput(workload, layout, estimate),
        predicted=evaluator.get_predicted_throughput(workload, layout, estimate),
        is_timed=is_timed(estimate),
        arithmetic=arithmetic,
        usd_per_gpu_hour=prices.get(evaluator.device.name),
        reads_host=isinstance(workload, ServeWorkload) and reads_host(workload),
    )


def compare_costs(after: TimedConfig, before: TimedConfig) -> RemedyCost:
    """Return the cost of a changed configuration beside that before."""
    time, throughput = _compute_time_ratio(after, before), after.throughput
    money = time if after.gpu == before.gpu else None
    if time is not None and after.usd_per_gpu_hour and before.usd_per_gpu_hour:
        money = time * after.usd_per_gpu_hour / before.usd_per_gpu_hour
    return RemedyCost(
        time_ratio=None if time is None else round(time * before.num_gpus / after.num_gpus, 3),
        gpu_time_ratio=None if time is None else round(time, 3),
        cost_ratio=None if money is None else round(money, 3),
        step_time_s=None if throughput is None else throughput.step_time_s,
        tokens_per_second=None if throughput is None else throughput.tokens_per_second,
        usd_per_million_tokens=price_tokens(after),
    )


def price_tokens(timed: TimedConfig) -> float | None:
    """Return USD per million tokens, None without rates or price."""
    if timed.throughput is None or timed.usd_per_gpu_hour is None:
        return None
    seconds = _MILLION / timed.throughput.tokens_per_second_per_gpu
    return round(timed.usd_per_gpu_hour * seconds / _SECONDS_PER_HOUR, 6)


def _compute_time_ratio(after: TimedConfig, before: TimedConfig) -> float | None:
    """Return the ratio of two GPU times per token.

    What a prediction misses is in a measured time and not in one beside it that nobody measured: of
    these two both are predicted.
    """
    both = (
        (after.throughput, before.throughput)
        if after.is_timed == before.is_timed
        else (after.predicted, before.predicted)
    )
    if both[0] is not None and both[1] is not None:
        return both[1].tokens_per_second_per_gpu / both[0].tokens_per_second_per_gpu
    is_like = after.gpu == before.gpu and after.reads_host <= before.reads_host
    return after.arithmetic / before.arithmetic if is_like else None
