"""Cursors are opaque, belong to one list, and are checked before they reach the database."""

import base64
import json
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Select, select

from service.base.errors import InvalidCursorError, InvalidRequestError
from service.db.cursors import MAX_NUMBER
from service.db.pages import (
    MAX_PAGE_SIZE,
    Page,
    PageRequest,
    get_reached_name,
    make_page,
    make_page_by_name,
    make_page_by_numbers,
    make_page_of_names,
    paginate,
    paginate_by_numbers,
)
from service.db.tables.clusters import ClusterRow
from service.db.tables.core import MeasurementSampleRow

Position = tuple[datetime, UUID]
positions = st.tuples(st.datetimes(timezones=st.just(UTC)), st.uuids())


def cursor_after(position: Position, *, list_name: str = "clusters") -> str:
    """Return the cursor that a page ending at ``position`` gives out."""
    page = make_page(
        [position, position],
        PageRequest(limit=1),
        list_name=list_name,
        position=lambda row: row,
        value=lambda row: row,
    )
    assert page.next_cursor is not None
    return page.next_cursor


def page_after(cursor: str | None) -> Select[ClusterRow]:
    """Return the statement for the page of clusters after ``cursor``."""
    request = PageRequest(limit=1, cursor=cursor)
    return paginate(
        select(ClusterRow),
        request,
        list_name="clusters",
        created_at=ClusterRow.created_at,
        row_id=ClusterRow.id,
    )


@given(positions)
def test_a_cursor_means_its_row(position: Position) -> None:
    """To the microsecond and the id, whatever they are."""
    compiled = page_after(cursor_after(position)).compile()

    assert {position[0], position[1]} <= set(compiled.params.values())


@given(positions)
def test_a_cursor_fits_into_a_url(position: Position) -> None:
    """Nothing in it needs escaping."""
    assert set(cursor_after(position)) <= set(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    )


@given(st.text() | st.binary().map(lambda raw: base64.urlsafe_b64encode(raw).decode()))
def test_whatever_comes_is_refused(cursor: str) -> None:
    """No text makes anything else than a refusal: no other error, and no page."""
    with pytest.raises(InvalidCursorError) as refused:
        page_after(cursor)

    assert refused.value.status == 422


@pytest.mark.parametrize(
    "content",
    [
        ["row", "clusters", "2026-01-01T00:00:00", str(uuid4())],
        ["row", "clusters", "2026-01-01T00:00:00Z", "1"],
        ["row", "clusters", "2026-01-01T00:00:00Z", str(uuid4()), "more"],
        ["row", "models", "2026-01-01T00:00:00Z", str(uuid4())],
        ["name", "clusters", "c"],
        ["column", "clusters", "c"],
        {"list_name": "clusters"},
    ],
    ids=[
        "no zone",
        "no id",
        "too long",
        "other list",
        "a name where rows are",
        "unknown kind",
        "no array",
    ],
)
def test_a_forged_cursor_is_refused(content: object) -> None:
    """JSON of nearly the right shape is not good enough."""
    with pytest.raises(InvalidCursorError):
        page_after(base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("="))


def test_a_cursor_belongs_to_its_list() -> None:
    """One of another list is refused, though its shape is right."""
    with pytest.raises(InvalidCursorError, match="not one that this list gave out"):
        page_after(cursor_after((datetime(2026, 1, 1, tzinfo=UTC), uuid4()), list_name="models"))


@pytest.mark.parametrize("limit", [0, -1, MAX_PAGE_SIZE + 1])
def test_a_page_has_some_items(limit: int) -> None:
    """The refusal says which sizes there are."""
    with pytest.raises(InvalidRequestError, match=f"between 1 and {MAX_PAGE_SIZE}"):
        PageRequest(limit=limit)


@given(
    names=st.lists(st.text(min_size=1), unique=True), limit=st.integers(min_value=1, max_value=5)
)
def test_names_are_shown_once_and_in_order(names: list[str], limit: int) -> None:
    """Following the cursors of a list of names shows each, whatever they are."""
    page = make_page_of_names(names, after_name="", limit=limit, list_name="models")
    seen = list(page.items)
    while page.next_cursor is not None:
        reached = get_reached_name(PageRequest(cursor=page.next_cursor), list_name="models")
        assert reached is not None
        page = make_page_of_names(names, after_name=reached, limit=limit, list_name="models")
        seen += page.items

    assert seen == sorted(names)


def test_a_cursor_of_rows_names_no_name() -> None:
    """In a list that ends in names the rows come first."""
    assert get_reached_name(PageRequest(), list_name="clusters") is None
    cursor = cursor_after((datetime(2026, 1, 1, tzinfo=UTC), uuid4()))
    assert get_reached_name(PageRequest(cursor=cursor), list_name="clusters") is None


def named_page(items: list[str], request: PageRequest) -> Page[str]:
    """Return a page of a list of items that are their own names."""
    return make_page_by_name(items, request, list_name="gpus", name=str)


@given(
    items=st.lists(st.text(min_size=1), unique=True), limit=st.integers(min_value=1, max_value=5)
)
def test_a_list_at_hand_is_shown_in_its_own_order(items: list[str], limit: int) -> None:
    """Following the cursors shows each item once, in the order of the list, whatever the names
    are.
    """
    page = named_page(items, PageRequest(limit=limit))
    seen = list(page.items)
    while page.next_cursor is not None:
        page = named_page(items, PageRequest(limit=limit, cursor=page.next_cursor))
        seen += page.items

    assert seen == items


def test_a_list_at_hand_goes_on_after_nothing_but_its_items() -> None:
    """A name that is not in the list, and the position of a row, are refused."""
    gone = named_page(["a", "b"], PageRequest(limit=1)).next_cursor
    row = cursor_after((datetime(2026, 1, 1, tzinfo=UTC), uuid4()), list_name="gpus")

    for cursor in (gone, row):
        with pytest.raises(InvalidCursorError):
            named_page(["b"], PageRequest(cursor=cursor))


def numbers_after(cursor: str | None) -> Select[MeasurementSampleRow]:
    """Return the statement for the page of samples after ``cursor``."""
    columns = (MeasurementSampleRow.attempt, MeasurementSampleRow.seq)
    return paginate_by_numbers(
        select(MeasurementSampleRow),
        PageRequest(limit=1, cursor=cursor),
        list_name="samples",
        columns=columns,
    )


def cursor_of_numbers(*numbers: int) -> str:
    """Return the cursor that a page ending at ``numbers`` would give out."""
    page = make_page_by_numbers(
        [numbers, numbers],
        PageRequest(limit=1),
        list_name="samples",
        numbers=lambda row: row,
        value=lambda row: row,
    )
    assert page.next_cursor is not None
    return page.next_cursor


def test_numbered_rows_go_on_after_their_numbers() -> None:
    """The cursor means its row."""
    assert {7, 300} <= set(numbers_after(cursor_of_numbers(7, 300)).compile().params.values())


@pytest.mark.parametrize("numbers", [(1,), (1, 2, 3), (1, -1), (1, MAX_NUMBER + 1)])
def test_numbers_that_no_row_has_are_refused(numbers: tuple[int, ...]) -> None:
    """Too few, too many, and what no column holds never reach the database."""
    with pytest.raises(InvalidCursorError):
        numbers_after(cursor_of_numbers(*numbers))
