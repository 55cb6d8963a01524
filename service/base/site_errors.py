"""Refusals of what browsers are made to send."""

from service.base.errors import ServiceError


class MisdirectedError(ServiceError):
    """The request is meant for a name that is not this server's.

    RFC 9110, sec. 15.5.20.
    """

    type = "misdirected-request"
    title = "This server has another name"
    status = 421


class CrossSiteError(ServiceError):
    """A page of another site had a browser send a change."""

    type = "cross-site-request"
    title = "A page of another site sent this"
    status = 403
