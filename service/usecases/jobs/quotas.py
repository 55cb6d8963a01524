"""Quotas of measurements, counted from the jobs themselves.

So nothing that forgets (Redis) gives any of it back, and a job and its charge are one transaction.
"""

import math
from datetime import timedelta

from sqlalchemy.orm import Session

from service.access.keys import Principal
from service.access.limits import parse_limit
from service.base.errors import InvalidRequestError, TooManyRequestsError
from service.db.queries.measurements import lock_quota, read_wait_s


def charge_quota(session: Session, caller: Principal, number: int) -> None:
    """Admit ``number`` more jobs of a caller, all or none.

    This transaction has to insert them; until its end no other one counts for this caller. Raises
    TooManyRequestsError past the quota.
    """
    key, quota = caller.usage_key, caller.quota
    if key is None or quota is None:
        return
    limit = parse_limit(quota)
    if number > limit.amount:
        message = (
            f"this asks for {number} measurements, and the key's quota is {quota}; ask for "
            "them one by one with POST /v1/measurements"
        )
        raise InvalidRequestError(message)
    lock_quota(session, key)
    window = timedelta(seconds=limit.seconds)
    wait_s = read_wait_s(session, key, window=window, at_most=limit.amount - number)
    if wait_s is not None:
        retry_after_s = max(1, math.ceil(wait_s))
        message = f"this key may ask for {quota} measurements; try again in {retry_after_s} s"
        raise TooManyRequestsError(message, retry_after_s=retry_after_s)
