"""How the servers report: to whatever logger their owner has."""

from collections.abc import Callable

Log = Callable[..., object]
"""Takes an event's name and its keys, as the methods of ``structlog`` loggers do."""


def silent(_event: str, **_keys: object) -> None:
    """Report to nobody."""
