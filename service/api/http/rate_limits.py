"""Rate and quota limits of keys."""

from collections.abc import Callable
from functools import partial
from typing import Any

import anyio.to_thread
from litestar import Request

from service.access.keys import Principal
from service.api.http import auth as guard
from service.api.http.auth import get_principal
from service.api.http.dependencies import get_dependencies
from service.api.http.operation import Operation
from service.usecases.access.rate_limits import Throttle


def make_rate_throttle(throttle: Throttle) -> guard.Throttle:
    """Return a function that counts requests against a key's rate."""

    async def count(principal: Principal, _operation: Operation) -> None:
        if principal.rate is not None and principal.usage_key is not None:
            count_request = partial(
                throttle.count, principal.rate, key_id=principal.usage_key, what="requests"
            )
            await anyio.to_thread.run_sync(count_request)

    return count


def make_rate_charge(throttle: Throttle) -> Callable[[Principal, int], None]:
    """Return a function that counts costs against a key's rate."""

    def charge(principal: Principal, number: int) -> None:
        if principal.rate is not None and principal.usage_key is not None:
            throttle.count(
                principal.rate, key_id=principal.usage_key, what="requests", number=number
            )

    return charge


def make_quota_charge(throttle: Throttle) -> Callable[[Principal, int], None]:
    """Return a function that counts measurements against a key's quota."""

    def charge(principal: Principal, number: int) -> None:
        if principal.quota is not None and principal.usage_key is not None:
            throttle.count(
                principal.quota, key_id=principal.usage_key, what="measurements", number=number
            )

    return charge


def charge_quota(request: Request[Any, Any, Any], number: int) -> None:
    """Count measurements that are about to be asked for.

    Raises TooManyRequestsError.
    """
    principal = get_principal(request.scope)
    if principal is not None:
        get_dependencies(request).charge(principal, number)
