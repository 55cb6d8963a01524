"""Following a measurement to its end.

Over streams that break and a server that restarts, without missing an event.
"""

import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from typing import Protocol

import httpx

from service.base.errors import ServiceError, UnavailableError
from service.cli.http import Document, build_path, read, read_refusal
from service.client.events import ServerEvent, read_events
from service.terminal.controls import spell_controls

MAX_OUTAGE_S = 60.0
"""How long a server may be away before the command gives up; the measurement itself goes on."""
# The server sends a comment every few seconds; a stream that is silent for longer is dead.
SILENCE_S = 60.0
RECONNECT_S = 1.0
RECORDING, REFUSED = "recording", "refused"
POLL_S = 1.0
_DONE = frozenset({"succeeded", "failed", "cancelled"})


class ProgressView(Protocol):
    """View of a measurement's progress."""

    def state(self, measurement: Document) -> None:
        """Show the state of the measurement."""

    def event(self, kind: str, data: Document) -> None:
        """Show one event."""

    def away(self, reason: str) -> None:
        """Show that the server does not answer for now."""


def follow(
    client: httpx.Client,
    path: str,
    view: ProgressView,
    *,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> Document:
    """Show a measurement's progress and return it at its end.

    ``path`` is that of the measurement. A server that was there and went away is waited for, and a
    broken stream goes on where it broke.
    """
    last_id = ""
    end = -math.inf
    while True:
        try:
            measurement = _read(client, path)
            end = clock() + MAX_OUTAGE_S
            view.state(measurement)
            if measurement["status"] in _DONE:
                return measurement
            for event in _iter_events(client, path, last_id):
                last_id, end = event.id, clock() + MAX_OUTAGE_S
                view.event(event.kind, json.loads(event.data))
        except (httpx.TransportError, httpx.StreamError, UnavailableError) as error:
            if clock() > end:
                raise
            view.away(str(error) or type(error).__name__)
            pause(RECONNECT_S)


def _read(client: httpx.Client, path: str) -> Document:
    answer = client.get(path)
    _check(answer)
    measurement: Document = answer.json()
    return measurement


def _iter_events(client: httpx.Client, path: str, last_id: str) -> Iterator[ServerEvent]:
    headers = {"accept": "text/event-stream", **({"last-event-id": last_id} if last_id else {})}
    timeout = httpx.Timeout(SILENCE_S, connect=RECONNECT_S)
    with client.stream("GET", f"{path}/events", headers=headers, timeout=timeout) as stream:
        _check(stream)
        yield from read_events(stream.iter_lines())


def _check(answer: httpx.Response) -> None:
    if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
        raise UnavailableError(read_refusal(answer).detail)
    if not answer.is_success:
        raise read_refusal(answer)


def wait_for_recording(
    client: httpx.Client, model: Document, *, pause: Callable[[float], None] = time.sleep
) -> Document:
    """Return a stored model once its recording is there.

    Raises ServiceError for one that cannot be recorded.
    """
    last_line = ""
    while model["state"] == RECORDING:
        progress = model["recording"]
        line = f"{progress['progress']:4.0%} {progress['phase']}"
        if line != last_line:
            sys.stderr.write(f"headroom: {spell_controls(line)}\n")
            sys.stderr.flush()
            last_line = line
        pause(POLL_S)
        model = read(client, build_path("models", model["name"]))
    if model["state"] == REFUSED:
        message = f"{model['name']} could not be recorded: {model['recording']['reason']}"
        raise ServiceError(message)
    return model
