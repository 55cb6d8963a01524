"""A run of few tokens, for the speed of the host's launches.

Where the GPU decides a step, its time says nothing of the host, and the next question may wait for
it: of few tokens the host has its part.
"""

from collections.abc import Callable
from dataclasses import replace

from service.estimator.values.corrections import SpeedRatios
from service.jobs.host import Host
from service.probing.duration import estimate_point_seconds
from service.probing.plan import Point, ProbeQuestion, Run

TELLING_SHARE = 2 / 3
"""Of a run's time that the host has in it where no other run has to tell of it: what is wrong in
the GPU's part counts half as much of the host's speed then.
"""
MIN_HOST_SHARE = 1 / 3
"""The same of the run of few tokens: what is wrong in the GPU's part counts twice."""
FASTER = 1.5
"""Of a host: two that were rented with an H100 differed by as much."""
_NUDGE = 1.1
PACE_SEQUENCE = 128
"""Products of fewer rows take kernels that split them otherwise."""

HostShare = Callable[[Point], float]


def measure_host_share(predict: Callable[[SpeedRatios], float | None]) -> float:
    """Return a run's growth over its host's; 0 where it is unknown.

    The host is ``FASTER`` than those in the middle: what waits for that one waits for others.
    """
    base, slower = (predict(SpeedRatios(host=ratio)) for ratio in (1 / FASTER, _NUDGE / FASTER))
    return (slower / base - 1) / (_NUDGE - 1) if base and slower else 0.0


def plan_pace(
    largest: Point,
    question: ProbeQuestion,
    host: Host,
    get_host_share: HostShare,
    *,
    shrinks: bool,
    within_s: float,
) -> Run | None:
    """Return a run for the host's speed, where one is needed.

    ``shrinks`` says whether a sequence may be shorter. None too where it takes longer than is left.
    """
    if question.layout.num_gpus > 1:
        return None
    point = _find_pace_point(largest, get_host_share, shrinks=shrinks)
    if point is None:
        return None
    seconds = estimate_point_seconds(point, question, host)
    if seconds > within_s:
        return None
    return Run(point=point, why="few tokens: how fast this host launches", expected_s=seconds)


def _find_pace_point(point: Point, get_host_share: HostShare, *, shrinks: bool) -> Point | None:
    """Return a part of a point whose time tells of the host.

    None where the point's own time does, or where that of no part does better.
    """
    point_share = get_host_share(point)
    if point_share >= TELLING_SHARE:
        return None
    length = min(point.sequence_length, PACE_SEQUENCE) if shrinks else point.sequence_length
    pace = replace(point, micro_batch_size=1, sequence_length=length)
    share = get_host_share(pace)
    return pace if share >= MIN_HOST_SHARE and share > point_share else None
