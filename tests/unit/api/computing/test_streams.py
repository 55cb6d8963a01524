"""How many event streams are open: for one caller, in all, and how often each reads."""

from contextlib import ExitStack

import anyio
import pytest
from litestar.types import Message, Scope

from service.access.keys import Principal
from service.access.keys import Scope as KeyScope
from service.api.computing.streams import (
    LEAST_POLL_S,
    MAX_STREAMS,
    MAX_STREAMS_EACH,
    READS_PER_S,
    OpenStreams,
)
from service.api.resources.measurements.events import EventStream
from service.base.errors import TooManyRequestsError
from service.usecases.jobs.measurements import EventBatch

READER = Principal(name="r", scopes=frozenset(KeyScope), key_id="k")
SCOPE: Scope = {"type": "http", "client": ("10.0.0.1", 1), "state": {"principal": READER}}  # type: ignore[assignment]  # the rest is not read


def test_a_caller_has_a_number_of_streams() -> None:
    """One that ends makes room for another, and others have their own."""
    streams = OpenStreams()
    with ExitStack() as held:
        for _ in range(MAX_STREAMS_EACH - 1):
            held.enter_context(streams.hold("a"))
        with streams.hold("a"), pytest.raises(TooManyRequestsError, match="close one"):
            held.enter_context(streams.hold("a"))
        held.enter_context(streams.hold("a"))
        held.enter_context(streams.hold("b"))

    assert streams.get_poll_s() == LEAST_POLL_S


def test_a_process_has_a_number_of_streams() -> None:
    """The more there are, the less often each reads the database."""
    streams = OpenStreams()
    with ExitStack() as held:
        for number in range(MAX_STREAMS):
            held.enter_context(streams.hold(str(number)))
        poll_s = streams.get_poll_s()
        with pytest.raises(TooManyRequestsError, match=f"has {MAX_STREAMS} event streams"):
            held.enter_context(streams.hold("late"))

    assert poll_s == MAX_STREAMS / READS_PER_S


def test_a_stream_is_counted_while_it_goes_on() -> None:
    """The next is refused before its status is sent, and let in once the first is over."""
    streams, statuses = OpenStreams(), []

    async def admitted() -> None:
        """Let everybody go on."""

    async def follow() -> None:
        sent = anyio.Event()

        async def receive() -> Message:
            await sent.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])
            elif not message.get("more_body"):
                sent.set()

        over = EventBatch(events=(), is_last=True)
        stream = EventStream(over, 0, lambda _seq: over, admitted, streams=streams)
        await stream(SCOPE, receive, send)  # type: ignore[arg-type]  # it only awaits

    async def main() -> None:
        with ExitStack() as held:
            for _ in range(MAX_STREAMS_EACH):
                held.enter_context(streams.hold("k"))
            with pytest.raises(TooManyRequestsError):
                await follow()
        await follow()

    anyio.run(main)

    assert statuses == [200]
