"""A run of few tokens, for the speed of the host's launches.

Where the GPU decides a step, its time says nothing of the host, and the next question may wait for
it: of few tokens the host has its part.
"""

from collections.abc import Callable
from dataclasses import replace

from service.jobs.host import Host
from service.probing.duration import estimate_point_seconds
from service.probing.plan import Point, ProbeQuestion, Run

MIN_HOST_SHARE = 1 / 3
"""Of a run's time that the host has in it: what is wrong in the GPU's part counts twice as much of
the host's speed then.
"""
PACE_SEQUENCE = 128
"""Products of fewer rows take kernels that split them otherwise."""

HostShare = Callable[[Point], float]


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

    None where the point's own time does, or where that of no part does.
    """
    if get_host_share(point) >= MIN_HOST_SHARE:
        return None
    length = min(point.sequence_length, PACE_SEQUENCE) if shrinks else point.sequence_length
    pace = replace(point, micro_batch_size=1, sequence_length=length)
    return pace if get_host_share(pace) >= MIN_HOST_SHARE else None
