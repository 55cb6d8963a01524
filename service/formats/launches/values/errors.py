"""Refusals of launches that cannot be read."""

from service.estimator.values.errors import InvalidInputError

PLACES = frozenset({"command", "arguments"})
"""Places of settings that are fields of a request."""


class LaunchFormatError(InvalidInputError):
    """A launch that cannot be read, or that contradicts itself.

    ``where`` is the file and its line, or what else the setting stood in; None for the whole. A
    place that is a field of the request itself (``command``, ``arguments``) is the error's field.
    """

    def __init__(self, message: str, *, where: str | None = None, field: str = "files") -> None:
        """Build the message from the place and what is wrong there."""
        if where in PLACES:
            field, where = where, None
        super().__init__(message if where is None else f"{where}: {message}", field=field)
