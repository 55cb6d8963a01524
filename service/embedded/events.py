"""How this room reports: to whatever logger its owner has; loggers of ``structlog`` fit as they are."""

from typing import Any, Protocol


class Log(Protocol):
    """Takes an event's name and its keys."""

    def debug(self, event: str, **keys: Any) -> object:  # noqa: ANN401 - as structlog declares it
        """Report a step that went as it should."""

    def info(self, event: str, **keys: Any) -> object:  # noqa: ANN401 - as structlog declares it
        """Report what the owner of the machine wants to know."""

    def warning(self, event: str, **keys: Any) -> object:  # noqa: ANN401 - as structlog declares it
        """Report what went wrong and is being mended."""


class Silent:
    """Report to nobody."""

    def debug(self, event: str, **keys: object) -> None:
        """Drop it."""

    def info(self, event: str, **keys: object) -> None:
        """Drop it."""

    def warning(self, event: str, **keys: object) -> None:
        """Drop it."""


SILENT = Silent()
