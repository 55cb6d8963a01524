"""Cursor pagination of lists.

A cursor names the row after which to go on, so that new rows never shift a page.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

from sqlalchemy import Select, tuple_
from sqlalchemy.orm import InstrumentedAttribute

from service.base.errors import InvalidRequestError
from service.db.cursors import (
    AfterName,
    AfterNumbers,
    AfterRow,
    AfterValue,
    Position,
    decode_cursor,
    encode_cursor,
    make_cursor_error,
)

DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 200

Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)
Row = TypeVar("Row")
Statement = TypeVar("Statement", bound=Select[Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[Item_co]):
    """Some items of a list, with the next page's cursor.

    The cursor is ``None`` on the last page.
    """

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


def paginate(
    statement: Statement,
    request: PageRequest,
    *,
    list_name: str,
    created_at: InstrumentedAttribute[datetime],
    row_id: InstrumentedAttribute[UUID],
    oldest_first: bool = False,
) -> Statement:
    """Order ``statement`` newest first and limit it to a page.

    It selects one row more, which shows whether another page follows.
    """
    if request.cursor is not None:
        position = decode_cursor(request.cursor, list_name)
        if not isinstance(position, AfterRow):
            raise make_cursor_error(request.cursor)
        last = tuple_(position.created_at, position.id)
        columns = tuple_(created_at, row_id)
        statement = statement.where(columns > last if oldest_first else columns < last)
    order = (created_at, row_id) if oldest_first else (created_at.desc(), row_id.desc())
    return statement.order_by(*order).limit(request.limit + 1)


def make_page(
    rows: Sequence[Row],
    request: PageRequest,
    *,
    list_name: str,
    position: Callable[[Row], tuple[datetime, UUID]],
    value: Callable[[Row], Item],
) -> Page[Item]:
    """Turn the rows that ``paginate`` selected into a page."""
    return _build_page(
        rows, request, end=lambda row: AfterRow(list_name, *position(row)), value=value
    )


def paginate_by_numbers(
    statement: Statement,
    request: PageRequest,
    *,
    list_name: str,
    columns: Sequence[InstrumentedAttribute[int]],
) -> Statement:
    """Order ``statement`` by numbers, lowest first, and limit it.

    It selects one row more, as ``paginate`` does.
    """
    if request.cursor is not None:
        position = decode_cursor(request.cursor, list_name)
        if not isinstance(position, AfterNumbers) or len(position.numbers) != len(columns):
            raise make_cursor_error(request.cursor)
        statement = statement.where(tuple_(*columns) > tuple_(*position.numbers))
    return statement.order_by(*columns).limit(request.limit + 1)


def paginate_by_value(
    statement: Statement,
    request: PageRequest,
    *,
    list_name: str,
    columns: tuple[InstrumentedAttribute[float | None], InstrumentedAttribute[UUID]],
    highest_first: bool,
) -> Statement:
    """Order ``statement`` by a number and id, and limit it.

    Every row has the number. It selects one row more, as ``paginate`` does.
    """
    value, row_id = columns
    if request.cursor is not None:
        position = decode_cursor(request.cursor, list_name)
        if not isinstance(position, AfterValue):
            raise make_cursor_error(request.cursor)
        last = tuple_(position.value, position.id)
        statement = statement.where(
            tuple_(*columns) < last if highest_first else tuple_(*columns) > last
        )
    order = (value.desc(), row_id.desc()) if highest_first else (value, row_id)
    return statement.order_by(*order).limit(request.limit + 1)


def make_page_by_value(
    rows: Sequence[Row],
    request: PageRequest,
    *,
    list_name: str,
    position: Callable[[Row], tuple[float, UUID]],
    value: Callable[[Row], Item],
) -> Page[Item]:
    """Turn the rows that ``paginate_by_value`` selected into a page."""
    return _build_page(
        rows, request, end=lambda row: AfterValue(list_name, *position(row)), value=value
    )


def make_page_by_numbers(
    rows: Sequence[Row],
    request: PageRequest,
    *,
    list_name: str,
    numbers: Callable[[Row], tuple[int, ...]],
    value: Callable[[Row], Item],
) -> Page[Item]:
    """Turn the rows that ``paginate_by_numbers`` selected into a page."""
    return _build_page(
        rows, request, end=lambda row: AfterNumbers(list_name, numbers(row)), value=value
    )


def make_page_by_name(
    items: Sequence[Item], request: PageRequest, *, list_name: str, name: Callable[[Item], str]
) -> Page[Item]:
    """Return a page of an in-memory list.

    Its cursor names the last item of a page.
    """
    first = 0
    if request.cursor is not None:
        position, names = decode_cursor(request.cursor, list_name), [name(item) for item in items]
        if not isinstance(position, AfterName) or position.name not in names:
            raise make_cursor_error(request.cursor)
        first = names.index(position.name) + 1
    remaining = items[first : first + request.limit + 1]
    return _build_page(
        remaining,
        request,
        end=lambda item: AfterName(list_name, name(item)),
        value=lambda item: item,
    )


def get_reached_name(request: PageRequest, *, list_name: str) -> str | None:
    """Return the name of a cursor in a list ending in names.

    ``None`` when its rows come first.
    """
    position = decode_cursor(request.cursor, list_name) if request.cursor is not None else None
    return position.name if isinstance(position, AfterName) else None


def make_page_of_names(
    names: Iterable[str], *, after_name: str, limit: int, list_name: str
) -> Page[str]:
    """Return up to ``limit`` sorted names after ``after_name``.

    The empty name comes before all.
    """
    remaining = sorted(name for name in names if name > after_name)
    page_names = tuple(remaining[:limit])
    has_more = len(remaining) > len(page_names)
    last = page_names[-1] if page_names else after_name
    return Page(
        items=page_names,
        next_cursor=encode_cursor(AfterName(list_name, last)) if has_more else None,
    )


def _build_page(
    rows: Sequence[Row],
    request: PageRequest,
    *,
    end: Callable[[Row], Position],
    value: Callable[[Row], Item],
) -> Page[Item]:
    page_rows = rows[: request.limit]
    has_more = len(rows) > len(page_rows)
    return Page(
        items=tuple(value(row) for row in page_rows),
        next_cursor=encode_cursor(end(page_rows[-1])) if has_more else None,
    )
