"""Units: bytes and counts in words, and exact arithmetic."""

import pytest

from service.estimator.values.units import GIB, KIB, MIB, ceil_div, format_bytes, format_count


@pytest.mark.parametrize(
    ("num_bytes", "words"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (KIB, "1.00 KiB"),
        (-3 * MIB, "-3.00 MiB"),
        (1536 * GIB, "1,536.00 GiB"),
    ],
)
def test_bytes_are_read_in_binary_units(num_bytes: int, words: str) -> None:
    """1 KiB is 1024 bytes, and the unit says so."""
    assert format_bytes(num_bytes) == words


def test_counts_are_read_in_decimal_steps() -> None:
    """Four digits and a power of ten."""
    assert (format_count(6_738_415_616), format_count(512)) == ("6.738e9", "512")


def test_integer_arithmetic_rounds_up_exactly() -> None:
    """Beyond what a float can hold, too."""
    assert ceil_div(10**30 + 1, 2) == 5 * 10**29 + 1
