"""Refusals of launches that cannot be read."""

from service.estimator.values.errors import InvalidInputError


class LaunchFormatError(InvalidInputError):
    """A launch that cannot be read, or that contradicts itself.

    ``where`` is the file and its line, or what else the setting stood in; None for the whole.
    """

    def __init__(self, message: str, *, where: str | None = None, field: str = "files") -> None:
        """Build the message from the place and what is wrong there."""
        super().__init__(message if where is None else f"{where}: {message}", field=field)
