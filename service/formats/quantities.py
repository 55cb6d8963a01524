"""Amounts of memory as text: bytes, ``"80Gi"``, ``"80GiB"``, ``"81920Mi"``."""

import re

from service.estimator.values.errors import InvalidInputError

_EXPONENTS: dict[str, int] = {"K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_QUANTITY = re.compile(
    r"(?P<number>[0-9]{1,19})(?:\.(?P<fraction>[0-9]{1,9}))? ?(?P<unit>[A-Za-z]*)", re.ASCII
)
_BINARY = re.compile(r"(?P<prefix>[KMGTP])i[Bb]?", re.ASCII)
_DECIMAL = re.compile(r"(?P<prefix>[kKmMgGtTpP])[bB]?", re.ASCII)
_EXAMPLES = (
    'bytes as an integer, or a string with a binary unit such as "80Gi", "80GiB" or "81920Mi"'
)
MAX_BYTES = 2**63 - 1
"""Largest amount: what a signed 64-bit column holds."""


class QuantityError(InvalidInputError):
    """An unreadable or ambiguous amount of memory."""


def parse_bytes(value: object, *, field: str | None = None) -> int:
    """Return ``value`` in bytes.

    An ambiguous value is refused, with what to write instead.
    """
    match value:
        case bool():
            raise QuantityError(
                _format_refusal(value, "a truth value is no amount of memory"), field=field
            )
        case int():
            return _check_range(value, written=value, field=field)
        case str():
            return _check_range(_parse_text(value, field), written=value, field=field)
        case _:
            raise QuantityError(
                _format_refusal(value, f"a {type(value).__name__} is no amount of memory"),
                field=field,
            )


def _parse_text(text: str, field: str | None) -> int:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise QuantityError(_format_refusal(text, "this is no amount of memory"), field=field)
    number, fraction, unit = match["number"], match["fraction"] or "", match["unit"]
    if binary := _BINARY.fullmatch(unit):
        return _compute_exact(
            text, number, fraction, size=1024 ** _EXPONENTS[binary["prefix"]], field=field
        )
    if decimal := _DECIMAL.fullmatch(unit):
        raise QuantityError(
            _explain_two_readings(text, number, fraction, decimal["prefix"].upper()), field=field
        )
    if unit in {"", "B"}:
        reason = f"write the integer {number} without quotes" if not fraction else "bytes are whole"
        raise QuantityError(
            _format_refusal(text, f"a number of bytes is no string: {reason}"), field=field
        )
    raise QuantityError(_format_refusal(text, f"{unit!r} is no unit of memory"), field=field)


def _compute_exact(text: str, number: str, fraction: str, *, size: int, field: str | None) -> int:
    scale: int = 10 ** len(fraction)
    num_bytes, remainder = divmod(int(number + fraction) * size, scale)
    if remainder:
        raise QuantityError(_format_refusal(text, "this is no whole number of bytes"), field=field)
    return num_bytes


def _explain_two_readings(text: str, number: str, fraction: str, prefix: str) -> str:
    exponent, scale = _EXPONENTS[prefix], 10 ** len(fraction)
    decimal = int(number + fraction) * 1000**exponent // scale
    binary = int(number + fraction) * 1024**exponent // scale
    written = f"{number}.{fraction}" if fraction else number
    return (
        f'"{text}" has two readings: {written} x 10^{3 * exponent} = {decimal} bytes, or '
        f'{written} x 2^{10 * exponent} = {binary} bytes; write "{written}{prefix}i" for {binary}, '
        f"or the integer {decimal}"
    )


def _check_range(num_bytes: int, *, written: object, field: str | None) -> int:
    if not 0 <= num_bytes <= MAX_BYTES:
        raise QuantityError(
            _format_refusal(written, f"an amount of memory lies between 0 and {MAX_BYTES} bytes"),
            field=field,
        )
    return num_bytes


def _format_refusal(value: object, reason: str) -> str:
    quoted = f'"{value}"' if isinstance(value, str) else str(value)
    return f"{quoted[:60]}: {reason}; write {_EXAMPLES}"
