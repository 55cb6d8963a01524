"""Messages between a server and its children.

Both ends are programs of ours, so that a message is a pickle behind its length. Nothing that a
stranger sent is one: it travels as bytes inside.
"""

import io
import pickle
import select
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
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
    is_reply: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsendable:
    """A call or its result that cannot travel, and why."""

    reason: str
    processor_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Question of a child that only its server can answer."""

    name: str
    arguments: tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """Word that nobody waits for the call any more."""


Reply = Returned | Raised | OutOfMemory | Unsendable


class MessagePickler(pickle.Pickler):
    """Pickler that takes refusals, whatever they are made of, and read-only mappings."""

    def reducer_override(self, value: object) -> Any:  # noqa: ANN401 - pickle's protocol
        """Return how a value is made again, if pickle cannot."""
        if isinstance(value, BaseException):
            return _rebuild_error, (type(value), value.args, value.__dict__)
        if isinstance(value, MappingProxyType):
            return _rebuild_mapping, (dict(value),)
        return NotImplemented


def encode_message(message: object, pickler: type[MessagePickler] = MessagePickler) -> bytes:
    """Return the bytes of a message."""
    buffer = io.BytesIO()
    pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(message)
    return buffer.getvalue()


def decode_message(encoded: bytes | bytearray) -> Any:  # noqa: ANN401 - whatever the other end sent
    """Return the message of its bytes."""
    return pickle.loads(encoded)  # noqa: S301 - of our own program at the other end


def try_decoding(encoded: bytes | bytearray) -> Any:  # noqa: ANN401 - whatever the other end sent
    """Return the message of its bytes, or why it is unreadable."""
    try:
        return decode_message(encoded)
    except Exception as error:  # noqa: BLE001 - any value has its own reasons not to travel
        return Unsendable(reason=str(error), processor_s=0.0)


def send_bytes(connection: socket.socket, encoded: bytes) -> None:
    """Send the bytes of a message."""
    connection.sendall(_LENGTH.pack(len(encoded)))
    connection.sendall(encoded)


def is_silent(connection: socket.socket) -> bool:
    """Return whether the other end is there and has sent nothing."""
    # Not select(2): a server may have more files open than that can wait for.
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return not poll.poll(0)


class Inbox:
    """Messages that come over a connection.

    A message that has come in part stays until the rest is asked for: who leaves while one comes
    never takes its middle, where a stranger's text may be, for the next one's beginning.
    """

    def __init__(self, connection: socket.socket) -> None:
        """Read nothing yet."""
        self._connection = connection
        self._length: int | None = None
        self._received = bytearray()

    def receive(self, on_wait: Callable[[], None]) -> bytearray | None:
        """Return the bytes of the next message.

        ``None`` where the other end has gone. ``on_wait`` is called whenever the connection's
        time-out passes without a byte; what it raises is raised.
        """
        if self._length is None:
            head = self._take(_LENGTH.size, on_wait)
            if head is None:
                return None
            self._length = _LENGTH.unpack(head)[0]
        message = self._take(self._length, on_wait)
        self._length = None
        return message

    def _take(self, count: int, on_wait: Callable[[], None]) -> bytearray | None:
        while len(self._received) < count:
            try:
                chunk = self._connection.recv(min(count - len(self._received), _CHUNK_BYTES))
            except TimeoutError:
                on_wait()
                continue
            except ConnectionError:
                return None
            if not chunk:
                return None
            self._received += chunk
        taken, self._received = self._received, bytearray()
        return taken


def _rebuild_mapping(values: dict[object, object]) -> MappingProxyType[object, object]:
    # The type has no name that it could be found by.
    return MappingProxyType(values)


def _rebuild_error(
    kind: type[BaseException], arguments: tuple[object, ...], state: dict[str, object]
) -> BaseException:
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    error.__dict__.update(state)
    return error
