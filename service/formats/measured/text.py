"""Text files decoded, cut into numbered lines and read as numbers.

Whatever a file holds, only one error is raised: MeasuredFormatError.
"""

import json
import re
from collections.abc import Iterator
from math import isfinite

from service.formats.measured.reading import MeasuredFormatError

MAX_LINE = 65_536
MAX_LINES = 2_000_000
_ANSI = re.compile(r"\x1b\[[0-9;]{0,16}[A-Za-z]")
_DECIMAL = re.compile(r"[0-9]{1,15}(\.[0-9]{1,9})?", re.ASCII)


def decode_text(data: bytes) -> str:
    """Return the text of a file.

    A byte order mark is no part of it.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"byte {error.start} is no UTF-8; expected text"
        raise MeasuredFormatError(message, line=line) from None
    if "\0" in text:
        message = "holds a NUL character; expected text"
        raise MeasuredFormatError(message, line=text.count("\n", 0, text.index("\0")) + 1)
    return text


def iter_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield number and content of every line, without colours.

    A progress bar's carriage returns end lines as well.
    """
    for number, line in enumerate(text.split("\n"), start=1):
        if number > MAX_LINES:
            message = f"has more than {MAX_LINES:,} lines; split it"
            raise MeasuredFormatError(message, line=number)
        if len(line) > MAX_LINE:
            continue
        for part in line.split("\r"):
            if part:
                yield number, _ANSI.sub("", part) if "\x1b" in part else part


def parse_json(text: str) -> object:
    """Return a JSON document.

    Numbers that no counter shows are refused.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_int=_read_integer)
    except json.JSONDecodeError as error:
        message = f"is not JSON: {error.msg} at column {error.colno}"
        raise MeasuredFormatError(message, line=error.lineno) from None
    except RecursionError:
        message = "is nested too deeply"
        raise MeasuredFormatError(message) from None


def parse_decimal(text: str, *, line: int | None, what: str) -> tuple[float, int]:
    """Return a decimal number and its number of decimals."""
    if not _DECIMAL.fullmatch(text):
        message = f"{what} is {text[:40]!r}; expected a number such as 40537 or 12.55"
        raise MeasuredFormatError(message, line=line)
    return float(text), len(text.partition(".")[2])


def parse_finite(value: object, *, what: str, line: int | None = None) -> float:
    """Return a finite number from JSON or an exposition.

    It may be text or a number; not NaN, which a missing sample is.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        message = f"{what} is a {type(value).__name__}; expected a number"
        raise MeasuredFormatError(message, line=line)
    try:
        number = float(value)
    except (ValueError, OverflowError):
        message = f"{what} is {str(value)[:40]!r}; expected a number"
        raise MeasuredFormatError(message, line=line) from None
    if not isfinite(number):
        message = f"{what} is {number}; expected a finite number"
        raise MeasuredFormatError(message, line=line)
    return number


def format_value(value: object) -> str:
    """Return a value for a message.

    Short values are shown as they are, of everything else the type.
    """
    if value is None or isinstance(value, bool | float):
        return str(value)
    if isinstance(value, int) and abs(value) < 1 << 64:
        return str(value)
    return repr(value[:60]) if isinstance(value, str) else f"a {type(value).__name__}"


def _refuse_constant(name: str) -> object:
    message = f"holds {name}, which is no number"
    raise MeasuredFormatError(message)


def _read_integer(digits: str) -> int:
    if len(digits) > 40:  # noqa: PLR2004 - far beyond 2^64, and short enough to be read at once
        message = f"holds a number of {len(digits)} digits"
        raise MeasuredFormatError(message)
    return int(digits)
