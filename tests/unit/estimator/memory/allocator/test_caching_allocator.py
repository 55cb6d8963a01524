"""The caching allocator: which segment a request opens, which block it gets, and what grows
together again.
"""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.estimator.memory.allocator.caching_allocator import (
    ADDRESS_BITS,
    Block,
    CachingAllocator,
    ExpandableAllocator,
    make_allocator,
)
from service.estimator.values.workload import Allocator

KIB, MIB = 2, 2048
"""In blocks of 512 bytes."""
_REQUESTS = st.lists(st.tuples(st.integers(1, 40 * MIB), st.booleans()), max_size=60)


def _played(allocator: CachingAllocator, requests: list[tuple[int, bool]]) -> list[Block]:
    """Return the blocks that stay after allocating each request and freeing those that are not kept
    at once.
    """
    kept = []
    for size, stays in requests:
        block = allocator.allocate(size)
        if stays:
            kept.append(block)
        else:
            allocator.free(block)
    return kept


def test_a_small_request_takes_two_megabytes_for_all_of_its_kind() -> None:
    """Requests up to 1 MiB share segments of 2 MiB."""
    allocator = CachingAllocator()

    for _ in range(4):
        allocator.allocate(512 * KIB)

    assert allocator.reserved == 2 * MIB


def test_a_medium_request_takes_twenty_megabytes() -> None:
    """Between 1 and 10 MiB a segment of 20 MiB is opened and split."""
    allocator = CachingAllocator()

    for _ in range(4):
        allocator.allocate(5 * MIB)

    assert allocator.reserved == 20 * MIB


def test_a_large_request_is_rounded_to_two_megabytes() -> None:
    """11 MiB and one block are 12 MiB, and the rest is too small to be split off: all of it counts
    as allocated.
    """
    allocator = CachingAllocator()

    allocator.allocate(11 * MIB + 2 * KIB)

    assert allocator.reserved == 12 * MIB
    assert allocator.allocated == 12 * MIB


def test_the_smallest_free_block_is_taken() -> None:
    """Best fit: 13 MiB go where 14 were, not where 30 were."""
    allocator = CachingAllocator()
    wide, tight = allocator.allocate(30 * MIB), allocator.allocate(14 * MIB)
    allocator.free(wide)
    allocator.free(tight)

    assert allocator.allocate(13 * MIB)[0] == tight[0]
    assert allocator.reserved == 44 * MIB


def test_neighbours_grow_together() -> None:
    """Two halves of a segment that are free again hold a request of its whole size."""
    allocator = CachingAllocator()
    halves = [allocator.allocate(10 * MIB - 1), allocator.allocate(10 * MIB - 1)]
    for half in halves:
        allocator.free(half)

    allocator.allocate(19 * MIB)

    assert allocator.reserved == 20 * MIB


def test_segments_of_fixed_size_never_grow_together() -> None:
    """Two free segments of 16 MiB do not hold 32 MiB; one that expands does."""
    reserved = []
    for kind in Allocator:
        allocator = make_allocator(kind)
        for block in [allocator.allocate(16 * MIB), allocator.allocate(16 * MIB)]:
            allocator.free(block)
        allocator.allocate(32 * MIB)
        reserved.append(allocator.reserved)

    assert reserved == [64 * MIB, 40 * MIB]


def test_an_expandable_segment_grows_from_its_last_free_block() -> None:
    """25 MiB need only 5 more after 20 that are free: pages of 20 MiB."""
    allocator = ExpandableAllocator()
    allocator.free(allocator.allocate(15 * MIB))

    address, size, _ = allocator.allocate(25 * MIB)

    assert (address, size) == (0, 25 * MIB)
    assert allocator.reserved == 40 * MIB


def test_the_block_that_could_grow_is_taken_last() -> None:
    """A larger hole inside of the segment is preferred to the smaller one at its end."""
    allocator = ExpandableAllocator()
    hole = allocator.allocate(18 * MIB)
    allocator.allocate(10 * MIB)
    allocator.free(hole)

    assert allocator.allocate(12 * MIB)[0] == hole[0]


@given(st.sampled_from(Allocator), _REQUESTS)
def test_blocks_in_use_never_overlap_and_add_up(
    kind: Allocator, requests: list[tuple[int, bool]]
) -> None:
    """Addresses are handed out once, what is allocated is what is in use, and it fits into what is
    reserved.
    """
    allocator = make_allocator(kind)

    kept = sorted(_played(allocator, requests), key=lambda block: block[0])

    assert all(left[0] + left[1] <= right[0] for left, right in pairwise(kept))
    assert (
        sum(size for _, size, _ in kept)
        == allocator.allocated
        <= allocator.highest
        <= allocator.reserved
    )


@given(st.sampled_from(Allocator), _REQUESTS)
def test_what_is_freed_grows_back_to_whole_segments(
    kind: Allocator, requests: list[tuple[int, bool]]
) -> None:
    """With everything free, every block is a segment again: one per pool where they expand."""
    allocator = make_allocator(kind)
    for block in _played(allocator, requests):
        allocator.free(block)

    sizes = [
        packed >> ADDRESS_BITS
        for pool in (allocator.small, allocator.large)
        for packed in pool.by_size
    ]

    assert allocator.allocated == 0
    assert sum(sizes) == allocator.reserved
    assert all(size % (2 * MIB) == 0 for size in sizes)
    assert kind is Allocator.DEFAULT or len(sizes) <= 2


def _one_by_one(
    allocator: CachingAllocator, order: list[int], sizes: list[int]
) -> dict[int, Block]:
    live: dict[int, Block] = {}
    for event in order:
        if event >= 0 and sizes[event]:
            live[event] = allocator.allocate(sizes[event])
        elif ~event in live:
            allocator.free(live.pop(~event))
    return live


def _a_pass(random: Random) -> tuple[list[int], list[int]]:
    """Return events and sizes: what is live is freed in any order, some of it never, and some of it
    has no size.
    """
    sizes = [
        random.choice([0, 1, KIB, 700, MIB, MIB + 1, 5 * MIB, random.randrange(1, 90 * MIB)])
        for _ in range(120)
    ]
    order: list[int] = []
    live: list[int] = []
    for event in range(len(sizes)):
        order.append(event)
        live.append(event)
        while live and random.random() < 0.45:
            order.append(~live.pop(random.randrange(len(live))))
    return order, sizes


@pytest.mark.parametrize("kind", Allocator)
def test_a_pass_is_run_as_its_requests_are_one_by_one(kind: Allocator) -> None:
    """Blocks that stay, what is reserved and the highest sum are the same, whatever an earlier pass
    has left.
    """
    random = Random(20261122)  # noqa: S311 - a seeded test, no secret
    at_once, singly = make_allocator(kind), make_allocator(kind)

    for order, sizes in (_a_pass(random) for _ in range(20)):
        stays, expected = at_once.run(order, sizes), _one_by_one(singly, order, sizes)

        assert [(event, *block[:2]) for event, block in stays.items()] == [
            (event, *b[:2]) for event, b in expected.items()
        ]
        assert (at_once.reserved, at_once.allocated, at_once.highest) == (
            singly.reserved,
            singly.allocated,
            singly.highest,
        )


@pytest.mark.parametrize("kind", Allocator)
def test_a_pass_ends_once_nobody_waits_for_it(kind: Allocator) -> None:
    """What is asked now and then whether anybody waits ends a long pass by raising."""
    asked: list[int] = []

    def leave() -> None:
        asked.append(len(asked))
        if len(asked) > 1:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        make_allocator(kind).run(range(10_000), [MIB] * 10_000, leave)
    assert len(asked) == 2
