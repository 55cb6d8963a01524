"""Flat answers as CSV (RFC 4180).

No spreadsheet takes a cell of it for a formula.
"""

import csv
import io
from collections.abc import Iterable, Sequence

from msgspec import Struct, structs

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a spreadsheet begins a formula with (owasp.org, CSV Injection): a quote before it makes it
text.
"""


def render_csv(rows: Iterable[Struct], *, header: Sequence[str] = ()) -> bytes:
    """Return rows as CSV, after the names of their columns."""
    text = io.StringIO()
    writer = csv.writer(text)
    if header:
        writer.writerow(header)
    for row in rows:
        writer.writerow([_format_cell(value) for value in structs.astuple(row)])
    return text.getvalue().encode()


def _format_cell(value: object) -> object:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case str() if value.startswith(FORMULA):
            return f"'{value}"
        case _:
            return value
