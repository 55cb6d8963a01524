"""Order of configurations by times that are counted as late as possible."""

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import count

from service.planner.search.layout_options import Batch, LayoutOption, rank_complexity
from service.planner.search.step_times import round_time

Timed = tuple[float, LayoutOption, Batch]
"""A time per token and the configuration that has it."""
_Entry = tuple[float, tuple[int, ...], int, float, LayoutOption, Batch]


def iter_by_counted_time(
    bounded: Iterable[Timed],
    count_seconds: Callable[[LayoutOption, Batch], float | None],
    *,
    faster_than: float | None = None,
) -> Iterator[Timed]:
    """Yield configurations by their counted times, the fastest first.

    ``bounded`` come by a lower bound of these, so that nothing is counted whose bound is beyond
    what is taken. A time of None drops its configuration. Of equally fast ones the simplest comes
    first, and none that is not ``faster_than`` a limit.
    """
    order = count()
    waiting: list[_Entry] = []
    for bound, option, batch in bounded:
        if faster_than is not None and bound >= faster_than:
            break
        while waiting and waiting[0][0] < round_time(bound):
            yield heappop(waiting)[3:]
        seconds = count_seconds(option, batch)
        if seconds is not None and (faster_than is None or seconds < faster_than):
            entry = (rank_complexity(option, batch), next(order), seconds, option, batch)
            heappush(waiting, (round_time(seconds), *entry))
    while waiting:
        yield heappop(waiting)[3:]
