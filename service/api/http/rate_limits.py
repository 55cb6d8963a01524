"""Rate limits of keys."""

from collections.abc import Callable

import anyio.to_thread

from service.access.keys import Principal
from service.api.http import auth as guard
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

    def count(principal: Principal, number: int) -> None:
        if principal.rate is not None and principal.usage_key is not None:
            throttle.count(principal.rate, key_id=principal.usage_key, number=number)

    return count
