"""Child of a server: calls functions until its server has gone."""

import os
import socket
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.runtime.children.limits import apply_limits, count_private_bytes
from service.runtime.children.messages import (
    Asked,
    Call,
    Inbox,
    OutOfMemory,
    Raised,
    Returned,
    Unsendable,
    decode_message,
    encode_message,
    is_silent,
    send_bytes,
    try_decoding,
)
from service.runtime.memory_limit import share_memory

IDLE_S = 600.0
"""After which a child that is kept, and asked nothing, ends with what it remembers."""
KEPT_BYTES = 512 * 2**20
"""Of memory that a child may keep for its next call; one that has more ends."""
_KEPT_SHARE = 32
"""It keeps no more than this part of its container: five of them have room beside a server, and
calls that take half of it (``service/api/computing/shares.py``).
"""
NICENESS = 10
"""A child has a ninth of the share of whatever answers at once (sched(7): 110 of 1,024)."""
_FIRST_TO_END = "1000"
"""Of all processes the kernel ends these first where a machine has no memory left (proc(5))."""


class CallCancelledError(Exception):
    """Nobody waits for this call any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Server:
    """Server that this process is a child of."""

    connection: socket.socket
    inbox: Inbox


class _Process:
    """Server of this process, which has one at most."""

    server: _Server | None = None


def serve(connection: socket.socket) -> None:
    """Answer calls until the server leaves or is silent.

    A child that remembers too much leaves by itself.
    """
    inbox = Inbox(connection)
    _Process.server = _Server(connection=connection, inbox=inbox)
    connection.settimeout(IDLE_S)
    with suppress(TimeoutError):
        while (encoded := inbox.receive(_leave)) is not None:
            message = try_decoding(encoded)
            del encoded
            if isinstance(message, Unsendable):
                send_bytes(connection, encode_message(message))
            # A cancellation may come when its call has been answered.
            elif isinstance(message, Call):
                send_bytes(connection, _answer(message))
                if count_private_bytes() > share_memory(KEPT_BYTES, _KEPT_SHARE):
                    return


def check_cancelled() -> None:
    """Raise CallCancelledError where nobody waits for the present call."""
    server = _Process.server
    if server is not None and not is_silent(server.connection):
        raise CallCancelledError


def ask_server(name: str, *arguments: object) -> Any:  # noqa: ANN401 - whatever is asked for
    """Return what the server answers to a question of the present call."""
    server = _Process.server
    if server is None:
        message = f"{name} is asked in a process that has no server"
        raise RuntimeError(message)
    send_bytes(server.connection, encode_message(Asked(name=name, arguments=arguments)))
    encoded = server.inbox.receive(_leave)
    reply = None if encoded is None else decode_message(encoded)
    if not isinstance(reply, Returned):
        raise CallCancelledError
    return reply.value


def _leave() -> None:
    raise TimeoutError


def give_way() -> None:
    """Have the kernel run everything else first."""
    os.nice(NICENESS)
    with suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_END)


def _answer(call: Call) -> bytes:
    started_s, is_reply = time.process_time(), False
    with apply_limits(call.limits):
        try:
            encoded = _call(call, started_s)
            if len(encoded) <= call.limits.reply_bytes:
                return encoded
            is_reply = True
        except MemoryError:
            pass
    passed_s = time.process_time() - started_s
    return encode_message(OutOfMemory(processor_s=passed_s, is_reply=is_reply))


def _call(call: Call, started_s: float) -> bytes:
    reply: Returned | Raised
    try:
        value = call.function(*call.arguments)
        reply = Returned(value=value, processor_s=time.process_time() - started_s)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - it is raised at the other end
        trace = "".join(traceback.format_tb(error.__traceback__))
        error.add_note(f"raised in a process of its own:\n{trace}")
        reply = Raised(error=error, processor_s=time.process_time() - started_s)
    try:
        return encode_message(reply)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - any value has its own reasons not to travel
        return encode_message(
            Unsendable(reason=str(error), processor_s=time.process_time() - started_s)
        )
