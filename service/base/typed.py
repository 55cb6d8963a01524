"""Thread-safe msgspec decoding of documents.

msgspec writes down what it knows of a type on the type itself, and does so before it knows the
types of its fields. A second thread that comes by in between reads what is not there yet, and the
process ends by SIGSEGV (msgspec 0.22): an API did that which was asked by several at once right
after its start. So a type is looked through by one thread at a time.
"""

from threading import Lock
from types import UnionType
from typing import Any, TypeVar, overload

import msgspec

_T = TypeVar("_T")
_LOCK = Lock()
_decoders: dict[object, "msgspec.json.Decoder[Any]"] = {}


def get_decoder(kind: object) -> "msgspec.json.Decoder[Any]":
    """Return the JSON decoder of ``kind``, made once.

    ``kind`` is a type or a union of types.
    """
    decoder = _decoders.get(kind)
    if decoder is None:
        with _LOCK:
            decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    return decoder


@overload
def convert(value: object, kind: type[_T]) -> _T: ...
@overload
def convert(value: object, kind: UnionType) -> Any: ...  # noqa: ANN401 - mypy knows no values of a union by the union
def convert(value: object, kind: object) -> object:
    """Return plain values as a ``kind``; raise ``msgspec.ValidationError``."""
    get_decoder(kind)
    return msgspec.convert(value, kind)
