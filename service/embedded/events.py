"""Log interface of the embedded servers.

Loggers of ``structlog`` fit as they are.
"""

from typing import Any, Protocol


class Log(Protocol):
    """Logger that takes an event's name and its keys."""

    def debug(self, event: str, **keys: Any) -> object:  # noqa: ANN401 - as structlog declares it
        """Report a step that went as it should."""

    def info(self, event: str, **keys: Any) -> object:  # noqa: ANN401 - as structlog declares it
        """Report what the machine's owner wants to know."""

    def warning(self, event: str, **keys: Any) -> object:  # noqa: ANN401 - as structlog declares it
        """Report a failure that is being mended."""


class NullLog:
    """Logger that drops everything."""

    def debug(self, event: str, **keys: object) -> None:
        """Drop it."""

    def info(self, event: str, **keys: object) -> None:
        """Drop it."""

    def warning(self, event: str, **keys: object) -> None:
        """Drop it."""


NULL_LOG = NullLog()
