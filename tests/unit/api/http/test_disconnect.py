"""A client that leaves: what was begun for it ends between two questions, and others wait no
longer.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from litestar.types import HTTPReceiveMessage, HTTPRequestEvent, Message

from service.api.application import make_application
from service.api.http.dependencies import Dependencies
from service.api.http.disconnect import CLIENT_CLOSED_REQUEST
from service.api.resources.fit import FAST_ROUTE
from service.app import ROUTERS
from service.estimator.model.architecture import Architecture
from service.estimator.values.corrections import Corrections
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Workload
from service.usecases.learning.corrections import CorrectionCache
from tests.unit.api.builders import FIT, parts

ITEMS = {
    "items": [
        {**FIT, "workload": {"task": "train", "sequence_length": length}}
        for length in range(1, 401)
    ],
}


HELPED = {"items": [FIT], "detail": "full"}
SEARCHED = {
    "model": FIT["model"],
    "workload": {"task": "train", "sequence_length": 1024, "method": "full"},
}
PLAN = {**SEARCHED, "gpus": ["T4"], "constraints": {"max_gpus": 2}}
CEILING = {**SEARCHED, "gpu": "T4", "maximize": "micro_batch_size"}


class CountingBook(CorrectionCache):
    """Knows nothing, and counts how often it is asked: once for every question; ``on_find`` is told
    each count.
    """

    def __init__(self, on_find: Callable[[int], None]) -> None:
        """Have been asked nothing."""
        super().__init__(read_changed=lambda _since: ())
        self.num_asked, self._on_find = 0, on_find

    def find(
        self, architecture: Architecture, workload: Workload, layout: Layout, gpu: str = ""
    ) -> Corrections | None:
        """Count a question."""
        self.num_asked += 1
        self._on_find(self.num_asked)
        return super().find(architecture, workload, layout, gpu)


def posted(path: str, body: object, *, leaves_at: int | None) -> tuple[int, int]:
    """Return the status of an answer and how many questions were asked for it; the client leaves at
    one of them.
    """

    async def ask() -> tuple[int, int]:
        loop, left = asyncio.get_running_loop(), asyncio.Event()

        def leave(count: int) -> None:
            # A thread asks: it must wait until the loop knows, as it would not for a question that
            # takes long.
            if count == leaves_at:
                asyncio.run_coroutine_threadsafe(_until_told(left), loop).result(timeout=20)

        book = CountingBook(leave)
        return await _status(
            replace(parts(), corrections=book), path, msgspec.json.encode(body), left
        ), book.num_asked

    return asyncio.run(ask())


async def _until_told(left: asyncio.Event) -> None:
    left.set()
    for _ in range(5):
        await asyncio.sleep(0)


async def _status(served: Dependencies, path: str, body: bytes, left: asyncio.Event) -> int:
    events: list[Message] = []
    asked: list[HTTPRequestEvent] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> HTTPReceiveMessage:
        if asked:
            return asked.pop()
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        events.append(message)

    scope: Any = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"host", b"localhost"),
        ],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    await make_application(served, handlers=ROUTERS, fast_route=FAST_ROUTE)(scope, receive, send)
    return int(next(event["status"] for event in events if event["type"] == "http.response.start"))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/fit", FIT),
        ("/v1/fit/batch", ITEMS),
        ("/v1/fit/batch", HELPED),
        ("/v1/plans", PLAN),
        ("/v1/ceilings", CEILING),
    ],
)
def test_an_answer_ends_when_nobody_waits_for_it(path: str, body: object) -> None:
    """Whoever stays has the whole answer; for whoever leaves at the second question not half of it
    is asked.
    """
    status, num_asked = posted(path, body, leaves_at=None)
    left_status, left_num_asked = posted(path, body, leaves_at=2)

    assert (status, left_status) == (200, CLIENT_CLOSED_REQUEST)
    assert left_num_asked < num_asked / 2


def test_a_refusal_is_one_also_where_somebody_could_leave() -> None:
    """What cannot run is told in its own words and no other."""
    question = {**FIT, "layout": {"tensor_parallel": 3}}

    assert posted("/v1/fit", question, leaves_at=None)[0] == 422
