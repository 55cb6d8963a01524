"""Cursors of lists: positions after a row, encoded."""

import base64
import binascii
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec

from service.base.errors import InvalidCursorError
from service.base.typed import get_decoder

MAX_NUMBER = 2**31 - 1
"""Largest INTEGER column value: a larger number in a cursor would be an error of the database."""


class AfterRow(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="row"):
    """Position after the last row of a page.

    ``list_name`` keeps a cursor to the list that gave it out.
    """

    list_name: str
    created_at: datetime
    id: UUID


class AfterName(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="name"
):
    """Position after the last name of a page.

    The list ends in names which are no rows.
    """

    list_name: str
    name: str


class AfterNumbers(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="numbers"
):
    """Position after the last row of a page of numbered rows.

    The list begins with the lowest numbers.
    """

    list_name: str
    numbers: tuple[Annotated[int, msgspec.Meta(ge=0, le=MAX_NUMBER)], ...]


class AfterValue(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="value"
):
    """Position after the last row of a page sorted by number."""

    list_name: str
    value: float
    id: UUID


Position = AfterRow | AfterName | AfterNumbers | AfterValue


def encode_cursor(position: Position) -> str:
    """Return the cursor of a position."""
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode("ascii").rstrip("=")


def decode_cursor(cursor: str, list_name: str) -> Position:
    """Return the position of a cursor that ``list_name`` gave out."""
    try:
        body = base64.b64decode(
            cursor.encode("ascii") + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True
        )
        position: Position = get_decoder(Position).decode(body)
    except (UnicodeEncodeError, binascii.Error, UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise make_cursor_error(cursor) from error
    if position.list_name != list_name or (
        isinstance(position, AfterRow) and position.created_at.tzinfo is None
    ):
        raise make_cursor_error(cursor)
    return position


def make_cursor_error(cursor: str) -> InvalidCursorError:
    """Return the refusal of a cursor."""
    message = (
        f"cursor {cursor[:80]!r} is not one that this list gave out; use next_cursor of its "
        "previous page"
    )
    return InvalidCursorError(message, errors=[{"field": "cursor", "message": message}])
