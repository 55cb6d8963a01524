"""Interfaces of tracing: a tracer, its spans, and their relations."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Protocol


class Kind(StrEnum):
    """Relation of a span to its parent."""

    INTERNAL = "internal"
    SERVER = "server"
    CLIENT = "client"
    PRODUCER = "producer"
    CONSUMER = "consumer"


class Span(Protocol):
    """Open span."""

    def rename(self, name: str) -> None:
        """Give it the name that was not known when it began."""

    def set_attributes(self, attributes: Mapping[str, str | int | float | bool]) -> None:
        """Add attributes."""

    def fail(self, reason: str) -> None:
        """Mark it as failed."""


class Tracing(Protocol):
    """Tracer that makes spans and sends them."""

    def span(
        self,
        name: str,
        *,
        kind: Kind,
        parent: str | None,
        began_ns: int | None,
        attributes: Mapping[str, str | int],
    ) -> AbstractContextManager[Span]:
        """Open a span beneath ``parent``, or beneath the one that is open."""
        ...

    def traceparent(self) -> str | None:
        """Return the open span as a header."""
        ...

    def close(self) -> None:
        """Send the remaining spans."""
