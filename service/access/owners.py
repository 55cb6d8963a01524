"""Owners: who made a reservation, or asked for a measurement."""

from dataclasses import dataclass

from service.access.keys import Principal, Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Maker of something stored.

    ``key`` is the id of the key or the subject of the token; null where nobody needed one.
    """

    name: str
    key: str | None = None


def make_owner(principal: Principal) -> Owner:
    """Return a caller as the owner of what he makes."""
    return Owner(name=principal.name, key=principal.usage_key)


def may_change(principal: Principal, owner: Owner | None) -> bool:
    """Return whether a caller may change what somebody made.

    An operator may change all of it, anybody what has no owner. A key's successor has its name, and
    with it what it made; the name of a token says nothing, its subject does.
    """
    if owner is None or principal.has_scope(Scope.ADMIN):
        return True
    if principal.usage_key is None:
        return False
    if principal.subject is not None:
        return principal.subject == owner.key
    return owner.key is not None and principal.name == owner.name
