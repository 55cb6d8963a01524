"""Amounts of memory are read exactly, or refused with what to write instead."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.formats.quantities import MAX_BYTES, QuantityError, parse_bytes

EXPONENTS = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (0, 0),
        (85899345920, 85899345920),
        ("80Gi", 85899345920),
        ("80GiB", 85899345920),
        ("80 GiB", 85899345920),
        ("81920Mi", 85899345920),
        ("79.25GiB", 85094039552),
        ("0.5Ki", 512),
        ("1Ti", 1099511627776),
    ],
)
def test_reads_bytes_and_binary_units(written: object, expected: int) -> None:
    """Integers are bytes, and a binary unit is exact."""
    assert parse_bytes(written) == expected


@given(
    st.integers(min_value=0, max_value=4096),
    st.sampled_from(sorted(EXPONENTS)),
    st.sampled_from(["", "B"]),
)
def test_every_binary_unit_is_a_power_of_1024(number: int, unit: str, suffix: str) -> None:
    """An integer with a binary unit is that integer times the unit."""
    assert parse_bytes(f"{number}{unit}{suffix}") == number * 1024 ** EXPONENTS[unit]


@given(st.integers(min_value=0, max_value=MAX_BYTES))
def test_integers_pass_unchanged(num_bytes: int) -> None:
    """Bytes in, the same bytes out."""
    assert parse_bytes(num_bytes) == num_bytes


@given(
    st.integers(min_value=1, max_value=4096),
    st.sampled_from("KMGTP"),
    st.sampled_from(["", "B", "b"]),
)
def test_a_bare_decimal_unit_is_refused_with_both_readings(
    number: int, prefix: str, suffix: str
) -> None:
    """The message names both readings in bytes and what to write for each."""
    exponent = "KMGTP".index(prefix) + 1

    with pytest.raises(QuantityError) as refused:
        parse_bytes(f"{number}{prefix}{suffix}", field="gpu.memory_bytes")

    assert str(number * 1000**exponent) in refused.value.message
    assert str(number * 1024**exponent) in refused.value.message
    assert f'"{number}{prefix}i"' in refused.value.message
    assert refused.value.field == "gpu.memory_bytes"


def test_80gb_names_both_readings() -> None:
    """The commonest mistake gets the whole sentence."""
    with pytest.raises(QuantityError) as refused:
        parse_bytes("80GB")

    assert refused.value.message == (
        '"80GB" has two readings: 80 x 10^9 = 80000000000 bytes, or 80 x 2^30 = 85899345920 bytes; '
        'write "80Gi" for 85899345920, or the integer 80000000000'
    )


NO_AMOUNTS = [
    *(
        "",
        "Gi",
        "-1Gi",
        "80gi",
        "80gib",
        "80Gi\n",
        " 80Gi",
        "1e3Gi",
        "80",
        "1.5",
        "80B",
        "0.3Ki",
        "80 apples",
        "nan",
        "inf",
    ),
    *("\uff18Gi", "1" * 400),
]


@pytest.mark.parametrize("written", NO_AMOUNTS)
def test_refuses_text_that_is_no_amount(written: str) -> None:
    """Signs, exponents, lower-case units, line ends, foreign digits and fractions of a byte are
    refused.
    """
    with pytest.raises(QuantityError, match="write bytes as an integer"):
        parse_bytes(written)


@pytest.mark.parametrize(
    "written",
    [True, False, 1.0, None, [], {}, -1, MAX_BYTES + 1, "9223372036854775808Ki", "8192Pi"],
)
def test_refuses_values_that_are_no_amount(written: object) -> None:
    """Truth values, floats, nothing, containers and amounts out of range are refused."""
    with pytest.raises(QuantityError, match="write bytes as an integer"):
        parse_bytes(written)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text makes the parser fail in another way, and what it reads is in range."""
    with suppress(QuantityError):
        assert 0 <= parse_bytes(text) <= MAX_BYTES
