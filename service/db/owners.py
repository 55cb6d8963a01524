"""Owners as columns of a row."""

from typing import Protocol

from service.access.owners import Owner


class OwnedRow(Protocol):
    """Row that says who made it."""

    created_by: str | None
    created_by_key: str | None


def make_owner_columns(owner: Owner | None) -> dict[str, str | None]:
    """Return the columns of an owner."""
    return {
        "created_by": None if owner is None else owner.name,
        "created_by_key": None if owner is None else owner.key,
    }


def read_owner(row: OwnedRow) -> Owner | None:
    """Return the owner of a row, if it has one."""
    return None if row.created_by is None else Owner(name=row.created_by, key=row.created_by_key)
