"""Transport of an answer whose request may not be whole."""

import asyncio
from collections.abc import Callable
from typing import Any


class Lingering:
    """Transport of an answer that closes as its connection does."""

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        """Call ``close`` in place of the transport's."""
        self._transport, self.close = transport, close

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the transport has
        """Return what the transport has."""
        return getattr(self._transport, name)
