"""Which limit of a key a request counts against."""

from collections.abc import Callable
from functools import partial
from typing import Any

import anyio.to_thread
from litestar import Request

from service.access.keys import Principal
from service.api.http import auth as guard
from service.api.http.auth import principal_in
from service.api.http.dependencies import parts_of
from service.api.http.operation import Operation
from service.usecases.access.rate_limits import Throttle


def rate_of(throttle: Throttle) -> guard.Throttle:
    """Return what counts every request against the rate of its key."""

    async def count(principal: Principal, _operation: Operation) -> None:
        if principal.rate is not None and principal.counted_as is not None:
            count_one = partial(throttle.count, principal.rate, key_id=principal.counted_as, what="requests")
            await anyio.to_thread.run_sync(count_one)

    return count


def quota_of(throttle: Throttle) -> Callable[[Principal, int], None]:
    """Return what counts new measurements against the quota of a key."""

    def charge(principal: Principal, number: int) -> None:
        if principal.quota is not None and principal.counted_as is not None:
            throttle.count(principal.quota, key_id=principal.counted_as, what="measurements", number=number)

    return charge


def charge_quota(request: Request[Any, Any, Any], number: int) -> None:
    """Count measurements that are about to be asked for; raises TooManyRequestsError."""
    principal = principal_in(request.scope)
    if principal is not None:
        parts_of(request).charge(principal, number)
