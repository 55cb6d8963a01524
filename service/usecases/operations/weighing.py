"""Sizes of what a process keeps, told by samples."""

import gc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType

from service.estimator.model.architecture import Architecture
from service.estimator.model.recorded.recorded_model import RecordedModel

SAMPLE = 8
MOST_OBJECTS = 50_000
"""Of one sample, which takes at most 40 ms and 5 MB for a moment; each value has its part of them.
A model that was recorded has 14,000.
"""
_NEW_SHARE = 0.25
_ENDS = (type, ModuleType, BuiltinFunctionType, CodeType)
MODELS = (Architecture, RecordedModel)
"""What almost everything names, and is counted where models are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """Size of the values in a cache.

    ``shared_bytes`` are of objects that several of the sample hold, ``each_bytes`` those that a
    value has to itself, in the mean.
    """

    shared_bytes: int = 0
    each_bytes: float = 0.0

    def blend(self, new: "Weight") -> "Weight":
        """Return the weight by a new sample too.

        Older ones count for less.
        """
        old_share = 1 - _NEW_SHARE
        return Weight(
            shared_bytes=round(old_share * self.shared_bytes + _NEW_SHARE * new.shared_bytes),
            each_bytes=old_share * self.each_bytes + _NEW_SHARE * new.each_bytes,
        )

    def count_bytes(self, num_values: int) -> int:
        """Return the bytes of so many values."""
        return self.shared_bytes + round(num_values * self.each_bytes) if num_values else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """A cache as it can be looked at by any thread.

    Objects of the types ``but`` are not counted as its own.
    """

    count: Callable[[], int]
    list_values: Callable[[], Sequence[object]]
    but: tuple[type, ...] = MODELS
    sample: int = SAMPLE


class CacheScales:
    """Sizes of a process's caches: each call weighs one."""

    def __init__(
        self,
        list_caches: Callable[[], Mapping[str, Cache]],
        *,
        on_weighed: Callable[[str, int, int], None],
    ) -> None:
        """Weigh nothing yet.

        ``on_weighed`` is told a cache's name, how many values it has, and how many bytes.
        """
        self._list_caches, self._on_weighed = list_caches, on_weighed
        self._weights: dict[str, Weight] = {}
        self._turns: Iterator[str] = iter(())
        self._round = -1

    def weigh_next(self) -> None:
        """Weigh one cache anew, and tell the sizes of all."""
        caches = self._list_caches()
        name = next(self._turns, None)
        if name is None:
            self._turns = iter(tuple(caches))
            self._round += 1
            name = next(self._turns)
        if name in caches:
            new, old = weigh_sample(caches[name], self._round), self._weights.get(name)
            self._weights[name] = new if old is None else old.blend(new)
        for label, cache in caches.items():
            number = cache.count()
            weight = self._weights.get(label, Weight())
            self._on_weighed(label, number, weight.count_bytes(number))


def weigh_sample(cache: Cache, turn: int = 0) -> Weight:
    """Weigh some values of a cache, others at each turn."""
    values = cache.list_values()
    step = max(1, len(values) // cache.sample)
    sample = values[turn % step :: step][: cache.sample]
    if not sample:
        return Weight()
    owners: dict[int, int] = {}
    shared: set[int] = set()
    own_bytes = shared_bytes = 0
    for place, value in enumerate(sample):
        most = MOST_OBJECTS * (place + 1) // len(sample)
        for part in _iter_objects(value, place, owners, but=cache.but, most=most):
            size = sys.getsizeof(part)
            if owners[id(part)] == place:
                own_bytes += size
            elif id(part) not in shared:
                shared.add(id(part))
                own_bytes -= size
                shared_bytes += size
    return Weight(shared_bytes=shared_bytes, each_bytes=max(0, own_bytes) / len(sample))


def _iter_objects(
    value: object, place: int, owners: dict[int, int], *, but: tuple[type, ...], most: int
) -> Iterator[object]:
    """Yield new parts of a value, and those that earlier values share."""
    waiting = [value]
    while waiting and len(owners) < most:
        part = waiting.pop()
        if isinstance(part, (*_ENDS, *but)) or owners.get(id(part)) == place:
            continue
        is_new = id(part) not in owners
        owners.setdefault(id(part), place)
        yield part
        if is_new:
            # What is below of one that others hold is shared with it.
            waiting += _list_referents(part)


def _list_referents(value: object) -> Sequence[object]:
    """Return what an object refers to.

    Of a function that is what it closed over.
    """
    if isinstance(value, FunctionType):
        return value.__closure__ or ()
    return gc.get_referents(value)
