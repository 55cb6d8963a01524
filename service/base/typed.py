"""What turns documents into checked values, for threads that meet a type for the first time together.

msgspec writes down what it knows of a type on the type itself, and does so before it knows the types of its fields. A second
thread that comes by in between reads what is not there yet, and the process ends by SIGSEGV (msgspec 0.22): an API did
that which was asked by several at once right after its start. So a type is looked through by one thread at a time.
"""

from threading import Lock
from types import UnionType
from typing import Any, TypeVar, overload

import msgspec

_T = TypeVar("_T")
_LOOKING = Lock()
_decoders: dict[object, "msgspec.json.Decoder[Any]"] = {}


def decoder_of(kind: object) -> "msgspec.json.Decoder[Any]":
    """Return the decoder of JSON into ``kind``, a type or a union of types, which is made once."""
    known = _decoders.get(kind)
    if known is None:
        with _LOOKING:
            known = _decoders[kind] = msgspec.json.Decoder(kind)
    return known


@overload
def converted(value: object, kind: type[_T]) -> _T: ...
@overload
def converted(value: object, kind: UnionType) -> Any: ...  # noqa: ANN401 - mypy knows no values of a union by the union
def converted(value: object, kind: object) -> object:
    """Return plain values as a ``kind``; raise ``msgspec.ValidationError``."""
    decoder_of(kind)
    return msgspec.convert(value, kind)
