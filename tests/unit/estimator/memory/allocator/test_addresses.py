"""Addresses of segments: chunks from the top down, and gaps filled first."""

from service.estimator.memory.allocator.addresses import CudaAddresses

MIB = 2048
"""In blocks of 512 bytes."""


def test_every_chunk_lies_below_the_last() -> None:
    """Segments of a chunk or more come from the highest address down, 32 MiB apart."""
    space = CudaAddresses()

    first, second, third = space.take(32 * MIB), space.take(48 * MIB), space.take(32 * MIB)

    assert (first - second, second - third) == (64 * MIB, 32 * MIB)


def test_a_gap_is_filled_before_a_chunk_is_taken() -> None:
    """12 and 20 MiB share a chunk, the later one above."""
    space = CudaAddresses()

    low, high, other = space.take(12 * MIB), space.take(20 * MIB), space.take(20 * MIB)

    assert high == low + 12 * MIB
    assert other == low - 32 * MIB


def test_the_smallest_gap_is_filled_first() -> None:
    """2 MiB go where 2 are left, not where 12 are."""
    space = CudaAddresses()
    space.take(20 * MIB)
    tight = space.take(30 * MIB)

    assert space.take(2 * MIB) == tight + 30 * MIB
