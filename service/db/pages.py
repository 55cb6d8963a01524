"""Pages of a list, newest first: a cursor says after which row to go on, so that new rows never shift a page."""

import base64
import binascii
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

import msgspec
from sqlalchemy import Select, tuple_
from sqlalchemy.orm import InstrumentedAttribute

from service.errors import InvalidCursorError, InvalidRequestError

DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 200

Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)
Row = TypeVar("Row")
Statement = TypeVar("Statement", bound=Select[Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[Item_co]):
    """Some items of a list, and the cursor that asks for those after them; ``None`` on the last page."""

    items: tuple[Item_co, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """Up to ``limit`` items after ``cursor``."""

    limit: int = DEFAULT_PAGE_SIZE
    cursor: str | None = None

    def __post_init__(self) -> None:
        """Refuse a page without items and one that would hold the list."""
        if not 1 <= self.limit <= MAX_PAGE_SIZE:
            message = f"limit is {self.limit}; it must lie between 1 and {MAX_PAGE_SIZE}"
            raise InvalidRequestError(message, errors=[{"field": "limit", "message": message}])


class _AfterRow(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="row"):
    """The last row of a page; ``list_name`` keeps a cursor to the list that gave it out."""

    list_name: str
    created_at: datetime
    id: UUID


class _AfterName(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="name"):
    """The last name of a page of a list that ends in names which are no rows."""

    list_name: str
    name: str


_Position = _AfterRow | _AfterName


def after(
    statement: Statement,
    request: PageRequest,
    *,
    list_name: str,
    created_at: InstrumentedAttribute[datetime],
    row_id: InstrumentedAttribute[UUID],
) -> Statement:
    """Order ``statement`` newest first and cut it to the page, with one row more to tell whether another page follows."""
    if request.cursor is not None:
        position = _decode(request.cursor, list_name)
        if not isinstance(position, _AfterRow):
            raise _refusal(request.cursor)
        statement = statement.where(tuple_(created_at, row_id) < tuple_(position.created_at, position.id))
    return statement.order_by(created_at.desc(), row_id.desc()).limit(request.limit + 1)


def page_of(
    rows: Sequence[Row],
    request: PageRequest,
    *,
    list_name: str,
    position: Callable[[Row], tuple[datetime, UUID]],
    value: Callable[[Row], Item],
) -> Page[Item]:
    """Turn the rows that ``after`` selected into a page of values."""
    shown = rows[: request.limit]
    more = len(rows) > len(shown)
    return Page(
        items=tuple(value(row) for row in shown),
        next_cursor=_encode(_AfterRow(list_name, *position(shown[-1]))) if more else None,
    )


def name_reached(request: PageRequest, *, list_name: str) -> str | None:
    """Return the name after which to go on in a list that ends in names; ``None`` when its rows come first."""
    position = _decode(request.cursor, list_name) if request.cursor is not None else None
    return position.name if isinstance(position, _AfterName) else None


def page_of_names(names: Iterable[str], *, after_name: str, limit: int, list_name: str) -> Page[str]:
    """Return up to ``limit`` names that sort after ``after_name``, in order; the empty name comes before all."""
    rest = sorted(name for name in names if name > after_name)
    shown = tuple(rest[:limit])
    more = len(rest) > len(shown)
    last = shown[-1] if shown else after_name
    return Page(items=shown, next_cursor=_encode(_AfterName(list_name, last)) if more else None)


def _encode(position: _Position) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode("ascii").rstrip("=")


def _decode(cursor: str, list_name: str) -> _Position:
    try:
        body = base64.b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        position: _Position = msgspec.json.decode(body, type=_Position)
    except (UnicodeEncodeError, binascii.Error, UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise _refusal(cursor) from error
    if position.list_name != list_name or (isinstance(position, _AfterRow) and position.created_at.tzinfo is None):
        raise _refusal(cursor)
    return position


def _refusal(cursor: str) -> InvalidCursorError:
    message = f"cursor {cursor[:80]!r} is not one that this list gave out; use next_cursor of its previous page"
    return InvalidCursorError(message, errors=[{"field": "cursor", "message": message}])
