"""Sizes of caches, told by samples."""

import gc

import pytest

from service.api.kept_caches import list_caches
from service.estimator.values.memo import (
    Memo,
    forget_latest,
    keep_latest,
    list_keeping_functions,
    list_latest,
)
from service.usecases.operations.weighing import Cache, CacheScales, weigh_sample
from tests.unit.api.builders import parts

EACH_BYTES, SHARED_BYTES, NUM_VALUES = 10_000, 1_000_000, 100


class Told:
    """Sizes as they were told last."""

    def __init__(self) -> None:
        """Know none."""
        self.sizes: dict[str, tuple[int, int]] = {}

    def tell(self, name: str, num_values: int, num_bytes: int) -> None:
        """Note one."""
        self.sizes[name] = num_values, num_bytes


def fill() -> Memo[list[bytes]]:
    """Return a memo whose values share a part."""
    shared, memo = bytes(SHARED_BYTES), Memo[list[bytes]](NUM_VALUES)
    for number in range(NUM_VALUES):
        memo.store(number, [shared, bytes(EACH_BYTES + number)])
    return memo


def look_at(memo: Memo[list[bytes]], but: tuple[type, ...] = ()) -> Cache:
    """Return a memo as it is weighed."""
    return Cache(count=memo.__len__, list_values=memo.list_items, but=but)


def test_what_values_share_counts_once() -> None:
    """And what each has to itself as often as there are values."""
    weight = weigh_sample(look_at(fill()))

    assert weight.count_bytes(NUM_VALUES) == pytest.approx(
        SHARED_BYTES + NUM_VALUES * EACH_BYTES, rel=0.05
    )


def test_what_is_counted_elsewhere_does_not_count() -> None:
    """A model that almost everything names is weighed where models are kept."""
    weight = weigh_sample(look_at(fill(), but=(bytes,)))

    assert weight.count_bytes(NUM_VALUES) < NUM_VALUES * 1000


def test_each_look_weighs_one_cache_and_tells_all() -> None:
    """A cache that was emptied has no bytes at the next look, whosever turn it is."""
    memos, told = {"a": fill(), "b": fill()}, Told()
    scales = CacheScales(
        lambda: {name: look_at(memo) for name, memo in memos.items()}, on_weighed=told.tell
    )
    scales.weigh_next()
    first = dict(told.sizes)
    scales.weigh_next()
    second = dict(told.sizes)
    memos["b"].clear()
    scales.weigh_next()

    assert first["a"][1] > SHARED_BYTES
    assert first["b"] == (NUM_VALUES, 0)
    assert second["b"][1] > SHARED_BYTES
    assert told.sizes["b"] == (0, 0)


@pytest.mark.parametrize("is_turned", [False, True])
def test_values_of_functions_are_seen_and_forgotten(
    monkeypatch: pytest.MonkeyPatch, *, is_turned: bool
) -> None:
    """The interpreter's own caches have no way to list them but the garbage collector's, whose
    order means nothing.
    """
    referents = gc.get_referents
    if is_turned:
        monkeypatch.setattr(gc, "get_referents", lambda function: referents(function)[::-1])

    @keep_latest(4)
    def double(text: str) -> tuple[str, str]:
        return text, text

    before = len(list_latest())
    double("a")
    double("b")
    seen = list_latest()
    flat = [value for part in seen for value in part]
    forget_latest()

    assert len(seen) == before + 2
    assert all(value in flat for value in ("a", "b", ("a", "a"), ("b", "b")))
    assert double.__wrapped__ not in flat
    assert vars(double) not in flat
    assert double.cache_info().currsize == 0


def test_a_server_that_forgets_keeps_nothing_of_what_was_asked() -> None:
    """Every cache that metrics name is empty, and the functions' too."""
    deps = parts()
    deps.specs.load("gpt2")
    deps.plans.get_memo("prices").store("key", "value")
    before = {name: cache.count() for name, cache in list_caches(deps).items()}
    deps.forget()

    assert before["catalogue"] == before["prices"] == 1
    assert {cache.count() for cache in list_caches(deps).values()} == {0}
    assert len(list_keeping_functions()) > 30
