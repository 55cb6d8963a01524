"""Refusals to explain a failure."""

from service.base.errors import InvalidRequestError


class NothingToExplainError(InvalidRequestError):
    """A log in which no failure is told.

    ``kinds`` says what is read.
    """

    type = "nothing-to-explain"
    title = "No failure is told"
