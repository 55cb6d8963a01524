"""Child of a server: calls functions until its server has gone."""

import os
import socket
import time
import traceback
from contextlib import suppress
from pathlib import Path

from service.runtime.children.limits import apply_limits
from service.runtime.children.messages import (
    Call,
    OutOfMemory,
    Raised,
    Returned,
    decode_message,
    encode_message,
    receive_bytes,
    send_bytes,
)

NICENESS = 10
"""A child has a ninth of the share of whatever answers at once (sched(7): 110 of 1,024)."""
_FIRST_TO_END = "1000"
"""Of all processes the kernel ends these first where a machine has no memory left (proc(5))."""


def serve(connection: socket.socket) -> None:
    """Answer calls until the other end has gone."""
    while (encoded := receive_bytes(connection)) is not None:
        call = decode_message(encoded)
        del encoded
        send_bytes(connection, _answer(call))


def give_way() -> None:
    """Have the kernel run everything else first."""
    os.nice(NICENESS)
    with suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_END)


def _answer(call: Call) -> bytes:
    started_s = time.process_time()
    with apply_limits(call.limits):
        try:
            encoded = _call(call, started_s)
            if len(encoded) <= call.limits.reply_bytes:
                return encoded
        except MemoryError:
            pass
    return encode_message(OutOfMemory(processor_s=time.process_time() - started_s))


def _call(call: Call, started_s: float) -> bytes:
    try:
        value = call.function(*call.arguments)
        return encode_message(Returned(value=value, processor_s=time.process_time() - started_s))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - it is raised at the other end
        trace = "".join(traceback.format_tb(error.__traceback__))
        error.add_note(f"raised in a process of its own:\n{trace}")
        return encode_message(Raised(error=error, processor_s=time.process_time() - started_s))
