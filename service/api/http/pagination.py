"""Pages of a list."""

from msgspec import UnsetType

from service.usecases.stored import PageRequest


def make_page_request(limit: int, cursor: str | UnsetType) -> PageRequest:
    """Return which page was asked for."""
    return PageRequest(limit=limit, cursor=None if isinstance(cursor, UnsetType) else cursor)
