"""Which limit of a key an operation counts against."""

from service.access.keys import Principal, Scope
from service.api import guard
from service.api.operation import Operation
from service.usecases.throttle import Throttle


def limits_of(throttle: Throttle) -> guard.Throttle:
    """Return what counts requests against the rate of a key, and new measurements against its quota too."""

    async def count(principal: Principal, operation: Operation) -> None:
        if principal.key_id is None:
            return
        if principal.rate is not None:
            await throttle.count(principal.rate, key_id=principal.key_id, what="requests")
        if principal.quota is not None and operation.scope is Scope.MEASURE and operation.body is not None:
            await throttle.count(principal.quota, key_id=principal.key_id, what="measurements")

    return count
