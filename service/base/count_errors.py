"""Refusal of a question whose answer is no number."""

from service.base.errors import ServiceError


class NothingFitsError(ServiceError):
    """No number of GPUs is enough for whoever wants the number alone.

    Nothing represents that answer acceptably (RFC 9110, section 15.5.7). No other refusal has this
    status, nor a proxy that misses a route, so a shell can tell it.
    """

    type = "nothing-fits"
    title = "No number of GPUs is enough"
    status = 406
