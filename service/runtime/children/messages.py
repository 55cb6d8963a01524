"""Messages between a server and its children.

Both ends are programs of ours, so that a message is a pickle behind its length. Nothing that a
stranger sent is one: it travels as bytes inside.
"""

import io
import pickle
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from service.runtime.children.limits import Limits

_LENGTH = struct.Struct(">Q")
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Function that a child calls, and its limits."""

    function: Callable[..., object]
    arguments: tuple[object, ...]
    limits: Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """Value of a function, and the processor's time that it took."""

    value: object
    processor_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """Error of a function, and the processor's time until then."""

    error: Exception
    processor_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfMemory:
    """A call that took more memory than it may, or returned more."""

    processor_s: float


Reply = Returned | Raised | OutOfMemory


def encode_message(message: object) -> bytes:
    """Return the bytes of a message."""
    buffer = io.BytesIO()
    _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(message)
    return buffer.getvalue()


def decode_message(encoded: bytes | bytearray) -> Any:  # noqa: ANN401 - whatever the other end sent
    """Return the message of its bytes."""
    return pickle.loads(encoded)  # noqa: S301 - of our own program at the other end


def send_bytes(connection: socket.socket, encoded: bytes) -> None:
    """Send the bytes of a message."""
    connection.sendall(_LENGTH.pack(len(encoded)))
    connection.sendall(encoded)


def receive_bytes(
    connection: socket.socket, on_wait: Callable[[], None] = lambda: None
) -> bytearray | None:
    """Return the bytes of the next message.

    ``None`` where the other end has gone. ``on_wait`` is called whenever the connection's time-out
    passes without a byte.
    """
    head = _receive_exactly(connection, _LENGTH.size, on_wait)
    if head is None:
        return None
    return _receive_exactly(connection, _LENGTH.unpack(head)[0], on_wait)


def _receive_exactly(
    connection: socket.socket, count: int, on_wait: Callable[[], None]
) -> bytearray | None:
    received = bytearray()
    while len(received) < count:
        try:
            chunk = connection.recv(min(count - len(received), _CHUNK_BYTES))
        except TimeoutError:
            on_wait()
            continue
        except ConnectionError:
            return None
        if not chunk:
            return None
        received += chunk
    return received


class _Pickler(pickle.Pickler):
    """Pickler of refusals as they are, whatever their constructors take."""

    def reducer_override(self, value: object) -> Any:  # noqa: ANN401 - pickle's protocol
        if isinstance(value, BaseException):
            return _rebuild_error, (type(value), value.args, value.__dict__)
        return NotImplemented


def _rebuild_error(
    kind: type[BaseException], arguments: tuple[object, ...], state: dict[str, object]
) -> BaseException:
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    error.__dict__.update(state)
    return error
