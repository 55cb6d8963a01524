"""Bounded caches of values that are made once."""

import gc
from collections.abc import Callable
from contextvars import ContextVar
from functools import lru_cache
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from functools import _lru_cache_wrapper

V = TypeVar("V")
_makes_values: ContextVar[bool] = ContextVar("makes_values", default=True)


_functions: "list[_lru_cache_wrapper[Any]]" = []


class NotKeptError(Exception):
    """A value that takes long to make is not kept."""


def make_of_kept(make: Callable[[], V]) -> V | None:
    """Return what is made of kept recordings, logs and replays.

    None where it takes one that is not kept.
    """
    token = _makes_values.set(False)
    try:
        return make()
    except NotKeptError:
        return None
    finally:
        _makes_values.reset(token)


def check_making() -> None:
    """Raise NotKeptError where kept values alone are used."""
    if not _makes_values.get():
        raise NotKeptError


def keep_latest(
    capacity: int,
) -> "Callable[[Callable[..., V]], _lru_cache_wrapper[V]]":
    """Keep the latest values of a function, until all are forgotten.

    It is for functions of what is asked. Those of data that a release ships have few values, and
    keep them for good.
    """

    def keep(function: Callable[..., V]) -> "_lru_cache_wrapper[V]":
        cached = lru_cache(capacity)(function)
        _functions.append(cached)
        return cached

    return keep


def list_keeping_functions() -> "tuple[_lru_cache_wrapper[Any], ...]":
    """Return the functions that keep their latest values."""
    return tuple(_functions)


def list_latest() -> list[tuple[object, ...]]:
    """Return what functions keep, in one part for each value.

    Any thread may ask. The garbage collector alone tells it: to what a function's cache refers
    directly, in no order that it promises. So the parts together are all arguments and values, and
    one alone may be of two neighbours.
    """
    parts: list[tuple[object, ...]] = []
    for function in list_keeping_functions():
        number = function.cache_info().currsize
        left_out = {id(function.__wrapped__), id(vars(function))}
        values = [
            referent
            for referent in gc.get_referents(function)
            if not isinstance(referent, type) and id(referent) not in left_out
        ]
        ends = [len(values) * place // number for place in range(number + 1)] if number else []
        parts += [tuple(values[begin:end]) for begin, end in pairwise(ends)]
    return parts


def forget_latest() -> None:
    """Forget what functions keep; any thread may."""
    for function in list_keeping_functions():
        function.cache_clear()


class Memo(Generic[V]):
    """Values by key, of which the oldest is dropped first."""

    __slots__ = ("_capacity", "_values")

    def __init__(self, capacity: int) -> None:
        """Keep at most ``capacity`` values."""
        self._capacity = capacity
        self._values: dict[object, V] = {}

    def __len__(self) -> int:
        """Return how many values are kept."""
        return len(self._values)

    def clear(self) -> None:
        """Keep nothing any more."""
        self._values.clear()

    def list_items(self) -> list[tuple[object, V]]:
        """Return the keys and values; any thread may ask."""
        return list(self._values.items())

    def get(self, key: object) -> V | None:
        """Return the value of a key, None where none is kept."""
        return self._values.get(key)

    def get_or_make(self, key: object, make: Callable[[], V]) -> V:
        """Return the value of a key, made where none is kept."""
        value = self._values.get(key)
        return value if value is not None else self.store(key, make())

    def store(self, key: object, value: V) -> V:
        """Keep a value and return it."""
        excess = len(self._values) - self._capacity + 1
        if excess > 0:
            # A list of the keys, because another thread may store one meanwhile.
            for oldest in list(islice(self._values, excess)):
                self._values.pop(oldest, None)
        self._values[key] = value
        return value


OfObjects = tuple[tuple[object, ...], V]
"""A value, and the very objects that it comes from."""


def get_or_make_of(
    memo: Memo[OfObjects[V]], objects: tuple[object, ...], make: Callable[[], V]
) -> V:
    """Return the value of some objects, made where none is kept.

    These never change. Who has them at hand finds a value without hashing them. They are kept with
    it, so that no other takes the place of one.
    """
    key = tuple(map(id, objects))
    entry = memo.get(key)
    return entry[1] if entry is not None else memo.store(key, (objects, make()))[1]
