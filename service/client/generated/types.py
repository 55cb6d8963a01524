"""What every generated module is made of."""

from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, TypeVar

import httpx
from attrs import frozen


class Unset:
    def __bool__(self) -> Literal[False]:
        return False


UNSET: Unset = Unset()
T_co = TypeVar("T_co", covariant=True)


@frozen(kw_only=True)
class Call(Generic[T_co]):
    """One request that is ready to be sent, and how its answer is read."""

    method: str
    path: str
    params: Mapping[str, Any]
    headers: Mapping[str, str]
    body: Any
    read: Callable[[httpx.Response], T_co]


__all__ = ["UNSET", "Call", "Unset"]
