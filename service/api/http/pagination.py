"""Pages of a list, or its rows as streamed CSV."""

from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import TypeVar

import anyio.to_thread
from litestar.response.streaming import ASGIStreamingResponse
from litestar.types import ASGIApp
from msgspec import Struct, UnsetType

from service.api.http.negotiation import is_preferred
from service.base.errors import InvalidRequestError
from service.contract.schemas.fields import get_or_default
from service.contract.to_answer.formats.csv_tables import render_csv
from service.usecases.stored import Page, PageRequest

CSV = "text/csv"
VARY = {"vary": "Accept"}
_PAGE = 200
T = TypeVar("T")


def make_page_request(limit: int, cursor: str | UnsetType) -> PageRequest:
    """Return which page was asked for."""
    return PageRequest(limit=limit, cursor=None if isinstance(cursor, UnsetType) else cursor)


def choose_format(word: str | UnsetType, accept: str | None) -> str:
    """Return the format of a word, else of Accept."""
    return get_or_default(word, "csv" if is_preferred(accept, CSV) else "json")


def stream_csv(
    columns: Sequence[str],
    read_page: Callable[[PageRequest], Page[T]],
    build_row: Callable[[T], Struct],
    *,
    paging: Struct,
) -> ASGIApp:
    """Return everything of a list as CSV.

    ``paging`` is the query, whose page is refused. The first rows are read before 200 is promised,
    so that a refusal still is one.
    """
    for name in ("limit", "cursor"):
        if not isinstance(getattr(paging, name), UnsetType):
            message = (
                f"{name} belongs to pages, and CSV is streamed as a whole; leave it out, or ask "
                "for format=json"
            )
            raise InvalidRequestError(message, errors=[{"field": name, "message": message}])
    first = read_page(PageRequest(limit=_PAGE))
    return ASGIStreamingResponse(
        iterator=_iter_csv(columns, first, read_page, build_row),
        media_type=CSV,
        headers={"content-type": f"{CSV}; charset=utf-8; header=present", **VARY},
    )


async def _iter_csv(
    columns: Sequence[str],
    first: Page[T],
    read_page: Callable[[PageRequest], Page[T]],
    build_row: Callable[[T], Struct],
) -> AsyncIterator[bytes]:
    """Yield the CSV table page by page.

    No more of it is in memory than one page, and no transaction stays open meanwhile.
    """
    yield render_csv(map(build_row, first.items), header=columns)
    cursor = first.next_cursor
    while cursor is not None:
        request = PageRequest(limit=_PAGE, cursor=cursor)
        page = await anyio.to_thread.run_sync(partial(read_page, request))
        yield render_csv(map(build_row, page.items))
        cursor = page.next_cursor
