"""Pages of a list, newest first: a cursor says after which row to go on, so that new rows never shift a page."""

import base64
import binascii
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar
from uuid import UUID

import msgspec
from sqlalchemy import Select, tuple_
from sqlalchemy.orm import InstrumentedAttribute

from service.base.errors import InvalidCursorError, InvalidRequestError
from service.base.typed import decoder_of

DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 200
MAX_NUMBER = 2**31 - 1
"""What an INTEGER column holds: a larger number in a cursor would be a fault of the database."""

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


class _AfterNumbers(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="numbers"):
    """The last row of a page of a list whose rows are numbered and begin with the lowest."""

    list_name: str
    numbers: tuple[Annotated[int, msgspec.Meta(ge=0, le=MAX_NUMBER)], ...]


class _AfterValue(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="value"):
    """The last row of a page of a list that is sorted by a number."""

    list_name: str
    value: float
    id: UUID


_Position = _AfterRow | _AfterName | _AfterNumbers | _AfterValue


def after(
    statement: Statement,
    request: PageRequest,
    *,
    list_name: str,
    created_at: InstrumentedAttribute[datetime],
    row_id: InstrumentedAttribute[UUID],
    oldest_first: bool = False,
) -> Statement:
    """Order ``statement`` newest first and cut it to the page, with one row more to tell whether another page follows."""
    if request.cursor is not None:
        position = _decode(request.cursor, list_name)
        if not isinstance(position, _AfterRow):
            raise _refusal(request.cursor)
        last = tuple_(position.created_at, position.id)
        here = tuple_(created_at, row_id)
        statement = statement.where(here > last if oldest_first else here < last)
    order = (created_at, row_id) if oldest_first else (created_at.desc(), row_id.desc())
    return statement.order_by(*order).limit(request.limit + 1)


def page_of(
    rows: Sequence[Row],
    request: PageRequest,
    *,
    list_name: str,
    position: Callable[[Row], tuple[datetime, UUID]],
    value: Callable[[Row], Item],
) -> Page[Item]:
    """Turn the rows that ``after`` selected into a page of values."""
    return _page(rows, request, end=lambda row: _AfterRow(list_name, *position(row)), value=value)


def after_numbers(
    statement: Statement, request: PageRequest, *, list_name: str, columns: Sequence[InstrumentedAttribute[int]]
) -> Statement:
    """Order ``statement`` by numbers, lowest first, and cut it to the page, with one row more as ``after`` does."""
    if request.cursor is not None:
        position = _decode(request.cursor, list_name)
        if not isinstance(position, _AfterNumbers) or len(position.numbers) != len(columns):
            raise _refusal(request.cursor)
        statement = statement.where(tuple_(*columns) > tuple_(*position.numbers))
    return statement.order_by(*columns).limit(request.limit + 1)


def after_value(
    statement: Statement,
    request: PageRequest,
    *,
    list_name: str,
    columns: tuple[InstrumentedAttribute[float | None], InstrumentedAttribute[UUID]],
    highest_first: bool,
) -> Statement:
    """Order ``statement`` by a number that every row has, and by its id, and cut it to the page as ``after`` does."""
    value, row_id = columns
    if request.cursor is not None:
        position = _decode(request.cursor, list_name)
        if not isinstance(position, _AfterValue):
            raise _refusal(request.cursor)
        last = tuple_(position.value, position.id)
        statement = statement.where(tuple_(*columns) < last if highest_first else tuple_(*columns) > last)
    order = (value.desc(), row_id.desc()) if highest_first else (value, row_id)
    return statement.order_by(*order).limit(request.limit + 1)


def page_of_valued(
    rows: Sequence[Row],
    request: PageRequest,
    *,
    list_name: str,
    position: Callable[[Row], tuple[float, UUID]],
    value: Callable[[Row], Item],
) -> Page[Item]:
    """Turn the rows that ``after_value`` selected into a page of values."""
    return _page(rows, request, end=lambda row: _AfterValue(list_name, *position(row)), value=value)


def page_of_numbered(
    rows: Sequence[Row],
    request: PageRequest,
    *,
    list_name: str,
    numbers: Callable[[Row], tuple[int, ...]],
    value: Callable[[Row], Item],
) -> Page[Item]:
    """Turn the rows that ``after_numbers`` selected into a page of values."""
    return _page(rows, request, end=lambda row: _AfterNumbers(list_name, numbers(row)), value=value)


def page_of_named(items: Sequence[Item], request: PageRequest, *, list_name: str, name: Callable[[Item], str]) -> Page[Item]:
    """Cut a page out of a list that is at hand as a whole; its cursor names the last item of a page."""
    first = 0
    if request.cursor is not None:
        position, names = _decode(request.cursor, list_name), [name(item) for item in items]
        if not isinstance(position, _AfterName) or position.name not in names:
            raise _refusal(request.cursor)
        first = names.index(position.name) + 1
    rest = items[first : first + request.limit + 1]
    return _page(rest, request, end=lambda item: _AfterName(list_name, name(item)), value=lambda item: item)


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


def _page(
    rows: Sequence[Row], request: PageRequest, *, end: Callable[[Row], _Position], value: Callable[[Row], Item]
) -> Page[Item]:
    shown = rows[: request.limit]
    more = len(rows) > len(shown)
    return Page(items=tuple(value(row) for row in shown), next_cursor=_encode(end(shown[-1])) if more else None)


def _encode(position: _Position) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode("ascii").rstrip("=")


def _decode(cursor: str, list_name: str) -> _Position:
    try:
        body = base64.b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        position: _Position = decoder_of(_Position).decode(body)
    except (UnicodeEncodeError, binascii.Error, UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise _refusal(cursor) from error
    if position.list_name != list_name or (isinstance(position, _AfterRow) and position.created_at.tzinfo is None):
        raise _refusal(cursor)
    return position


def _refusal(cursor: str) -> InvalidCursorError:
    message = f"cursor {cursor[:80]!r} is not one that this list gave out; use next_cursor of its previous page"
    return InvalidCursorError(message, errors=[{"field": "cursor", "message": message}])
