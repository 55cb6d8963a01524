"""Operations: the contract of each endpoint.

The handler carries it, OpenAPI prints it, and a test compares the two.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from service.access.keys import Scope

JSON = "application/json"

BODY_PROBLEMS = (400, 413, 415, 422)
STORED_PROBLEMS = (503,)
CHANGE_PROBLEMS = (412, 428)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One successful answer: its types, media types and headers."""

    description: str
    bodies: tuple[Any, ...] = ()
    media_types: tuple[str, ...] = (JSON,)
    headers: Mapping[str, str] = field(default_factory=dict)
    example: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path.

    ``path`` and ``headers`` map a parameter to its type; ``query`` is a struct of parameters. Of
    the headers only ``If-Match`` is required, where ``optional_headers`` does not name it.
    ``scope`` is what a key needs, ``None`` where no key is needed; ``is_change`` says that the log
    of changes has it.
    """

    id: str
    tag: str
    summary: str
    replies: Mapping[int, Reply]
    description: str = ""
    body: Any = None
    query: Any = None
    path: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, Any] = field(default_factory=dict)
    optional_headers: frozenset[str] = frozenset()
    problems: tuple[int, ...] = ()
    example: object = None
    scope: Scope | None = Scope.READ
    is_change: bool = False

    def __deepcopy__(self, _memo: dict[int, object]) -> "Operation":
        """Return itself.

        It is frozen, and the framework copies handlers with all they carry.
        """
        return self


def get_success_status(operation: Operation) -> int:
    """Return the status of an operation that did what was asked.

    Of two the lower one says that it was done already.
    """
    return max(operation.replies)
