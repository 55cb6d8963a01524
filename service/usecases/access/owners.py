"""Refusal of changes to what others made."""

from service.access.keys import Principal, Scope
from service.access.owners import Owner, may_change
from service.base.errors import ForbiddenError


def check_owner(caller: Principal | None, owner: Owner | None, *, what: str) -> None:
    """Raise ForbiddenError where something is another's.

    Without a caller it is this service itself that changes it.
    """
    if caller is None or owner is None or may_change(caller, owner):
        return
    message = (
        f"{what} was made by {owner.name!r}, and {caller.name!r} may not change it; use a key of "
        f"that name, or one of scope {Scope.ADMIN.value}"
    )
    raise ForbiddenError(message, created_by=owner.name)
