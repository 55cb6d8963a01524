"""Rate and quota limits of keys."""

from collections.abc import Callable
from typing import Any

import anyio.to_thread
from litestar import Request

from service.access.keys import Principal
from service.api.http import auth as guard
from service.api.http.auth import get_principal
from service.api.http.dependencies import get_dependencies
from service.api.http.operation import Operation
from service.usecases.access.rate_limits import Throttle

Charge = Callable[[Principal, int], None]


def make_rate_throttle(throttle: Throttle) -> guard.Throttle:
    """Return a function that counts requests against a key's rate."""
    charge = make_rate_charge(throttle)

    async def count(principal: Principal, _operation: Operation) -> None:
        if principal.rate is not None:
            await anyio.to_thread.run_sync(charge, principal, 1)

    return count


def make_rate_charge(throttle: Throttle) -> Charge:
    """Return a function that counts requests, one or several."""
    return lambda principal, number: _count(throttle, principal, principal.rate, "requests", number)


def make_quota_charge(throttle: Throttle) -> Charge:
    """Return a function that counts measurements against a key's quota."""
    return lambda principal, number: _count(
        throttle, principal, principal.quota, "measurements", number
    )


def _count(
    throttle: Throttle, principal: Principal, limit: str | None, what: str, number: int
) -> None:
    if limit is not None and principal.usage_key is not None:
        throttle.count(limit, key_id=principal.usage_key, what=what, number=number)


def charge_quota(request: Request[Any, Any, Any], number: int) -> None:
    """Count measurements that are about to be asked for.

    Raises TooManyRequestsError.
    """
    principal = get_principal(request.scope)
    if principal is not None:
        get_dependencies(request).charge(principal, number)
