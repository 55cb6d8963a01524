"""Measurement jobs: followed, waited for, cancelled.

They are followed over streams that break.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import IO, Any
from uuid import uuid4

import httpx

from service.client.asking import Plain, to_json
from service.client.errors import NotOverError, ServerError, UnknownAnswerError, UnreachableError
from service.client.events import ServerEvent, read_events
from service.client.generated.api.measurements import (
    cancel_measurement,
    create_measurement,
    read_measurement,
)
from service.client.generated.models import DryRunAnswer, MeasurementAnswer, MeasurementRequest
from service.client.generated.types import Call
from service.client.retrying import Repeat
from service.client.transport import Transport

OVER = frozenset({"succeeded", "failed", "cancelled"})
# The server sends a comment every 15 seconds; a stream that is silent for longer than a few of them
# is dead.
SILENCE_S = 60.0
PATIENCE_S = 60.0
"""How long a server may be away while somebody follows; the measurement itself goes on."""
_RECONNECT_S = 1.0
_FAULTS = (httpx.TransportError, httpx.StreamError, ServerError)


def build_measurement(
    request: MeasurementRequest | Plain, idempotency_key: str | None
) -> Call[DryRunAnswer | MeasurementAnswer]:
    """Return the call that asks for a measurement.

    It has a key of its own if none is given. Raises ValueError for a dry run.
    """
    body = to_json(request)
    if body.get("dry_run"):
        message = (
            "a dry run measures nothing, so there is nothing to be followed: ask dry_run() for "
            "what would be run"
        )
        raise ValueError(message)
    return create_measurement.call(body=body, idempotency_key=idempotency_key or str(uuid4()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Event of a measurement.

    ``kind`` is ``status``, ``plan``, ``progress`` or ``sample``, ``data`` has its facts; ``id`` is
    where to go on after it.
    """

    id: str
    kind: str
    data: Mapping[str, Any]

    @property
    def is_last(self) -> bool:
        """Whether the measurement is over with this event."""
        return self.kind == "status" and self.data.get("status") in OVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Monotonic clock and sleep, as a measurement is waited for."""

    now: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep


class Job:
    """One measurement on the server, by its id.

    ``first`` is the server's answer when it was asked for.
    """

    def __init__(
        self, transport: Transport, first: MeasurementAnswer, *, clock: Clock | None = None
    ) -> None:
        """Refer to a measurement that exists."""
        self._transport = transport
        self._clock = clock or Clock()
        self.id = first.id
        self.first = first

    def read(self) -> MeasurementAnswer:
        """Return the measurement as it is now."""
        return self._transport.send(read_measurement.call(self.id), Repeat.ALWAYS).value

    def cancel(self) -> MeasurementAnswer:
        """Cancel the measurement.

        A queued one at once, a running one within seconds; raises ConflictError where there is a
        result.
        """
        return self._transport.send(cancel_measurement.call(self.id), Repeat.ALWAYS).value

    def save_artifact(self, name: str, file: IO[bytes]) -> int:
        """Write an artifact to ``file`` and return its bytes.

        Raises NotFoundError, and UnknownAnswerError for bytes that the measurement does not list.
        """
        listed = {artifact.name: artifact for artifact in self.read().artifacts or ()}
        digest, num_bytes = hashlib.sha256(), 0
        for piece in self._transport.download(f"/v1/measurements/{self.id}/artifacts/{name}"):
            digest.update(piece)
            num_bytes += file.write(piece)
        if name not in listed or digest.hexdigest() != listed[name].sha256:
            message = (
                f"{num_bytes} bytes came as {name}, and they are not what measurement {self.id} "
                "lists"
            )
            raise UnknownAnswerError(message)
        return num_bytes

    def events(self, *, after: str = "", timeout_s: float | None = None) -> Iterator[Event]:
        """Yield the events until the measurement is over.

        From its first event, or after one; a broken stream goes on where it broke. Raises
        NotOverError when it is not over in time, and UnreachableError when the server is away for a
        minute.
        """
        end = None if timeout_s is None else self._clock.now() + timeout_s
        last_id, patient_until = after, self._clock.now() + PATIENCE_S
        while True:
            try:
                with self._stream(last_id, end) as stream:
                    if stream.status_code == httpx.codes.NO_CONTENT:
                        return
                    for event in self._iter_stream_events(stream, end):
                        last_id, patient_until = event.id, self._clock.now() + PATIENCE_S
                        yield event
                        if event.is_last:
                            return
            except _FAULTS as fault:
                self._check_time(end)
                if self._clock.now() > patient_until:
                    message = (
                        f"the server does not answer for {PATIENCE_S:g} s: "
                        f"{fault or type(fault).__name__}"
                    )
                    raise UnreachableError(message) from fault
            self._clock.pause(_RECONNECT_S)

    def wait(
        self,
        timeout_s: float | None = None,
        *,
        on_event: Callable[[Event], None] = lambda _event: None,
    ) -> MeasurementAnswer:
        """Return the measurement once it is over, however it ended.

        Raises NotOverError when that is not in time. ``on_event`` receives everything that happens
        meanwhile.
        """
        for event in self.events(timeout_s=timeout_s):
            on_event(event)
        return self.read()

    def _stream(self, last_id: str, end: float | None) -> AbstractContextManager[httpx.Response]:
        self._check_time(end)
        silence_s = SILENCE_S if end is None else min(SILENCE_S, end - self._clock.now())
        return self._transport.stream(
            f"/v1/measurements/{self.id}/events", last_event_id=last_id, silence_s=silence_s
        )

    def _iter_stream_events(self, stream: httpx.Response, end: float | None) -> Iterator[Event]:
        return (
            _parse_event(event) for event in read_events(self._iter_lines(stream.iter_lines(), end))
        )

    def _iter_lines(self, lines: Iterator[str], end: float | None) -> Iterator[str]:
        # Heartbeats are lines too, so that a silent measurement is given up in time.
        for line in lines:
            self._check_time(end)
            yield line

    def _check_time(self, end: float | None) -> None:
        if end is not None and self._clock.now() >= end:
            message = (
                f"measurement {self.id} is not over in time; it goes on, and can be waited for "
                "again"
            )
            raise NotOverError(message)


def _parse_event(event: ServerEvent) -> Event:
    try:
        data = json.loads(event.data)
    except ValueError as error:
        message = f"event {event.id} holds no JSON: {event.data[:80]!r}"
        raise UnknownAnswerError(message) from error
    return Event(id=event.id, kind=event.kind, data=data)
