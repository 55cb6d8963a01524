"""The allocator that is compiled of C, beside Python's form of the same rules."""

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from service.estimator.memory.allocator import replay_allocators
from service.estimator.memory.allocator.addresses import AscendingAddresses
from service.estimator.memory.allocator.caching_allocator import CachingAllocator, make_allocator
from service.estimator.memory.allocator.pressure import DeviceFullError, limit_allocator
from service.estimator.memory.allocator.replay_allocators import (
    ReplayAllocator,
    make_replay_allocator,
)
from service.estimator.values.workload import Allocator
from tests.unit.estimator.memory.allocator.drawn_passes import MIB, draw_pass

if TYPE_CHECKING:
    from service.estimator.memory.allocator.native_heap import NativeHeap
else:
    NativeHeap = replay_allocators.NativeHeap

pytestmark = pytest.mark.skipif(NativeHeap is None, reason="there is no C compiler here")
_KINDS = pytest.mark.parametrize("kind", Allocator)


def _make_native(kind: Allocator, *, is_cuda: bool = True) -> NativeHeap:
    return NativeHeap(kind is Allocator.EXPANDABLE_SEGMENTS, is_cuda)


def _list_free(allocator: CachingAllocator) -> list[tuple[int, int, int]]:
    return [
        (number, block.address, block.size)
        for number, pool in enumerate(allocator.pools)
        for block in pool.blocks
    ]


def _count(allocator: CachingAllocator | NativeHeap) -> tuple[int, ...]:
    return (
        allocator.reserved,
        allocator.allocated,
        allocator.highest,
        allocator.requested,
        allocator.highest_requested,
    )


@_KINDS
@pytest.mark.parametrize("is_cuda", [True, False])
def test_passes_leave_what_they_leave_in_python(kind: Allocator, *, is_cuda: bool) -> None:
    """Every free block and every count is the same after each pass, on whichever streams."""
    random = Random(20261201)  # noqa: S311 - a seeded test, no secret
    plain = make_allocator(kind, None if is_cuda else AscendingAddresses())
    native = _make_native(kind, is_cuda=is_cuda)

    for turn in range(40):
        order, sizes = draw_pass(random)
        streams = [random.choice([0, 0, 1, 2]) for _ in sizes] if turn % 2 else None
        expected = plain.run(order, sizes, None, streams)
        live = native.run(order, sizes, None, streams)

        assert list(live) == list(expected)
        assert native.list_free() == _list_free(plain)
        assert _count(native) == _count(plain)
        left = random.sample(list(live), len(live) * 3 // 4)
        plain.free_all([expected[event] for event in left])
        native.free_all([live[event] for event in left])


@_KINDS
def test_a_full_gpu_releases_what_it_releases_in_python(kind: Allocator) -> None:
    """Jobs in little memory end at the same request, or in the same state."""
    random = Random(7)  # noqa: S311 - a seeded test, no secret
    ends = set()
    for _ in range(60):
        limit = random.randrange(200, 3_000) * MIB
        plain = make_allocator(kind)
        limit_allocator(plain, limit)
        native = NativeHeap(kind is Allocator.EXPANDABLE_SEGMENTS, True, limit, DeviceFullError)  # noqa: FBT003 - C takes them by place too
        for _ in range(6):
            drawn = draw_pass(random)
            is_full = _is_full(plain, *drawn)
            assert _is_full(native, *drawn) == is_full
            assert native.list_free() == _list_free(plain)
            assert _count(native) == _count(plain)
            ends.add(is_full)

    assert ends == {True, False}


def _is_full(allocator: ReplayAllocator[Any], order: tuple[int, ...], sizes: list[int]) -> bool:
    try:
        allocator.run(order, sizes)
    except DeviceFullError:
        return True
    return False


@_KINDS
def test_tensors_are_rounded_up_to_blocks(kind: Allocator) -> None:
    """Bytes count as in Python, nothing takes nothing, and a peak begins anew."""
    allocators: list[ReplayAllocator[Any]] = [make_allocator(kind), _make_native(kind)]
    for allocator in allocators:
        blocks = allocator.allocate_all([0, 1, 512, 513, 3 * 2**20])
        allocator.free(blocks.pop())
        allocator.reset_peak()

        assert len(blocks) == 3
        assert (allocator.highest, allocator.highest_requested) == (4, 4 + 3 * MIB)


def test_bad_requests_are_refused() -> None:
    """A block is freed once, and an event has a size that a GPU could have."""
    heap = _make_native(Allocator.DEFAULT)
    block = heap.allocate(5)
    heap.free(block)

    for bad in (block, -1, 10**6):
        with pytest.raises(ValueError, match="not in use"):
            heap.free(bad)
    for size in (0, -1, 2**60):
        with pytest.raises(ValueError, match="out of range"):
            heap.allocate(size)
    with pytest.raises(IndexError):
        heap.run((0, 3), [1, 2])
    with pytest.raises(TimeoutError):
        heap.run((0,), [1], _leave)


@_KINDS
def test_no_heap_grows_beyond_what_its_blocks_can_count(kind: Allocator) -> None:
    """Blocks that were merged to more than 2^53 bytes would be written outside of their bins."""
    heap = _make_native(kind)
    blocks: list[int] = []
    with pytest.raises(OverflowError):
        blocks.extend(heap.allocate(2**41) for _ in range(16))
    heap.free_all(blocks)

    assert len(blocks) == 7
    assert sum(size for _, _, size in heap.list_free()) == heap.reserved
    assert heap.reserved < 2**44


def _leave() -> None:
    raise TimeoutError


def test_without_a_compiler_python_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same allocator in Python, limited where a GPU is."""
    monkeypatch.setattr(replay_allocators, "NativeHeap", None)

    allocator = make_replay_allocator(Allocator.DEFAULT, limit=20 * MIB)

    assert isinstance(allocator, CachingAllocator)
    with pytest.raises(DeviceFullError):
        allocator.allocate(21 * MIB)
