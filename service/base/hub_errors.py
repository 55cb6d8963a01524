"""Refusals about models on a hub.

HubOffError 422, HubRefusedError 422, HubContentError 422, HubUnavailableError 503.
"""

from service.base.errors import InvalidRequestError, UnavailableError


class HubOffError(InvalidRequestError):
    """This server reaches out to no hub."""

    type = "hub-off"
    title = "This server asks no hub"


class HubRefusedError(InvalidRequestError):
    """The hub has no such model, or not for this caller.

    ``hub_status`` is the status of its answer.
    """

    type = "hub-refused"
    title = "The hub refused"


class HubContentError(InvalidRequestError):
    """The hub holds no model that can be read."""

    type = "hub-content"
    title = "The model on the hub cannot be read"


class HubUnavailableError(UnavailableError):
    """The hub does not answer, or not in time."""

    type = "hub-unavailable"
    title = "The hub does not answer"
