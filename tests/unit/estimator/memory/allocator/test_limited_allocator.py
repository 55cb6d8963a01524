"""The caching allocator of a full GPU: what it releases, what it asks for, when it fails."""

from types import ModuleType

import pytest

from service.estimator.memory.allocator.pressure import DeviceFullError, limit_allocator
from service.estimator.values.workload import Allocator
from tests.unit.estimator.memory.allocator.allocator_forms import FORMS, name_form

MIB = 2048
"""In blocks of 512 bytes."""
_FORM = pytest.mark.parametrize("form", FORMS, ids=name_form)


@_FORM
@pytest.mark.parametrize("kind", Allocator)
def test_cached_memory_goes_back_before_a_request_fails(form: ModuleType, kind: Allocator) -> None:
    """60 MiB that nobody uses make room for 80 on a GPU of 100."""
    allocator = form.make_allocator(kind)
    limit_allocator(allocator, 100 * MIB)
    kept = allocator.allocate(20 * MIB)
    allocator.free(allocator.allocate(60 * MIB))

    block = allocator.allocate(80 * MIB)

    assert (kept.size, block.size) == (20 * MIB, 80 * MIB)
    assert allocator.reserved == 100 * MIB


@_FORM
@pytest.mark.parametrize("kind", Allocator)
def test_a_request_fails_where_nothing_cached_is_left(form: ModuleType, kind: Allocator) -> None:
    """Two blocks in use leave 20 MiB of 100."""
    allocator = form.make_allocator(kind)
    limit_allocator(allocator, 100 * MIB)
    for _ in range(2):
        allocator.allocate(40 * MIB)

    with pytest.raises(DeviceFullError):
        allocator.allocate(40 * MIB)


@_FORM
def test_a_segment_of_fixed_size_in_use_is_kept_whole(form: ModuleType) -> None:
    """A block of 11 MiB keeps its segment of 40; of an expandable one the other page goes back."""
    fixed, growing = (form.make_allocator(kind) for kind in Allocator)
    for allocator in (fixed, growing):
        limit_allocator(allocator, 60 * MIB)
        allocator.free(allocator.allocate(40 * MIB))
        allocator.allocate(11 * MIB)
    growing.allocate(30 * MIB)

    assert growing.reserved == 60 * MIB
    with pytest.raises(DeviceFullError):
        fixed.allocate(30 * MIB)


@_FORM
def test_a_free_last_block_grows_by_what_it_lacks(form: ModuleType) -> None:
    """Of 100 pages 80 are mapped, the last 25 free: five more make 30, and nothing is released."""
    page = 20 * MIB
    allocator = form.ExpandableAllocator()
    limit_allocator(allocator, 100 * page)
    first, _, last = (allocator.allocate(pages * page) for pages in (20, 35, 25))
    for block in (first, last):
        allocator.free(block)

    allocator.allocate(30 * page)

    assert allocator.reserved == 85 * page


@_FORM
def test_a_block_that_was_released_grows_from_nothing(form: ModuleType) -> None:
    """Room is made by releasing the 25 free pages: all 30 are asked for, and are not there."""
    page = 20 * MIB
    allocator = form.ExpandableAllocator()
    limit_allocator(allocator, 82 * page)
    _, last = (allocator.allocate(pages * page) for pages in (55, 25))
    allocator.free(last)

    with pytest.raises(DeviceFullError):
        allocator.allocate(30 * page)
