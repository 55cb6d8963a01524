"""Refusals of a command that no server sends."""

from service.base.errors import ServiceError


class CommandError(ServiceError):
    """A command could not do its work.

    The detail says what would be right.
    """

    type = "command-failed"
    title = "The command failed"
