"""Limits of time, and how far a configuration exceeds them."""

from collections.abc import Iterator
from math import floor, log10

from service.estimator.values.result import Throughput
from service.estimator.values.workload import ServeWorkload, Workload
from service.planner.search.search_space import Limits


def explain_too_slow(
    limits: Limits, fastest: tuple[Workload, Throughput | None] | None
) -> str | None:
    """Explain which time limit the fastest configuration breaks."""
    if fastest is None:
        return None
    workload, throughput = fastest
    if throughput is None:
        return "nobody told the speed of this GPU, and the request limits the time"
    broken = next(iter_broken_limits(limits, workload, throughput), None)
    return None if broken is None else f"fits, but {broken}"


def compute_excess(limits: Limits, workload: Workload, throughput: Throughput) -> float:
    """Return the worst ratio of a time to its limit.

    It is 1 or less where all limits are kept.
    """
    min_rate = limits.min_tokens_per_second
    ratios = [min_rate / throughput.tokens_per_second] if min_rate is not None else []
    return max(
        [
            *ratios,
            *(
                spent / limit
                for _, _, spent, limit in _iter_limited_times(limits, workload, throughput)
            ),
        ],
        default=0.0,
    )


def iter_broken_limits(limits: Limits, workload: Workload, throughput: Throughput) -> Iterator[str]:
    """Yield a sentence for each time limit that is broken."""
    min_rate, rate = limits.min_tokens_per_second, throughput.tokens_per_second
    if min_rate is not None and rate < min_rate:
        yield f"makes {rate:,.0f} tokens per second, fewer than {_format_figures(min_rate)}"
    for label, unit, spent, limit in _iter_limited_times(limits, workload, throughput):
        if spent > limit:
            yield (
                f"{label} takes {_format_figures(spent)} {unit}, more than "
                f"{_format_figures(limit)} {unit}"
            )


def _iter_limited_times(
    limits: Limits, workload: Workload, throughput: Throughput
) -> Iterator[tuple[str, str, float, float]]:
    """Yield each limited time: label, unit, value and limit."""
    serves = isinstance(workload, ServeWorkload)
    hours = throughput.hours_for_tokens
    limited_times = (
        ("a step", "s", None if serves else throughput.step_time_s, limits.max_step_time_s),
        ("the run", "hours", hours, limits.max_hours),
        ("prefill", "s", throughput.prefill_time_s, limits.max_prefill_time_s),
        (
            "a token",
            "s",
            throughput.step_time_s if serves else None,
            limits.max_time_per_output_token_s,
        ),
    )
    for label, unit, spent, limit in limited_times:
        if spent is not None and limit is not None:
            yield label, unit, spent, limit


def _format_figures(value: float) -> str:
    """Format a number with three significant figures."""
    if value >= 100:  # noqa: PLR2004 - three figures before the point
        return f"{value:,.0f}"
    return (
        f"{value:.{max(2 - floor(log10(value)), 0)}f}".rstrip("0").rstrip(".") if value > 0 else "0"
    )
