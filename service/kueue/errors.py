"""Refusals of Kubernetes' API and of a Headroom server."""

from service.base.command_errors import CommandError
from service.base.startup_errors import StartupError

NOT_FOUND, CONFLICT, GONE = 404, 409, 410
REFUSALS = frozenset({400, 403, 422})
"""Of an object that the API server, or a webhook or policy of it, does not take."""


class KubeError(CommandError):
    """Failed request to Kubernetes' API.

    ``code`` is the status of the answer, 0 without one.
    """

    def __init__(self, code: int, detail: str) -> None:
        """Store the status of the answer and its message."""
        super().__init__(detail)
        self.code = code


class AskError(CommandError):
    """Headroom server that says nothing about a job."""


class SilentError(AskError):
    """Headroom server that does not answer at all, or too late."""


class KubeConfigError(StartupError):
    """Credentials for Kubernetes' API that cannot be used."""
