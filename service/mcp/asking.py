"""Questions of tools, and the interface of whoever answers them."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Question of a tool to the API.

    ``operation`` is a question or a list; ``document`` its body, whoever carries it.
    """

    operation: str
    document: Document = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Answer of the API, or a problem document."""

    document: Document
    is_problem: bool = False


Ask = Callable[[Call, Mapping[str, Any] | None], Awaitable[Reply]]
"""Answers a call. The mapping is the ASGI scope of the request that carries it, if any does."""
