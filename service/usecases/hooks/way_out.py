"""Searches for ways out, for which no hook need wait.

The first search of a model takes up to half a second, and its verdict a few tens of milliseconds.
So a hook waits a moment and answers with what it knows; whoever asks again reads the rest.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

from service.base.errors import UnavailableError
from service.usecases.hooks.decision import Shortage

MAX_KEPT = 4096
MAX_WAITING = 32
"""Searches that wait for their turn; more are not begun."""
_PAUSE_S = 0.1
"""Longest that a search stands still at one of its steps while hooks answer."""

Check = Callable[[], None]
Search = Callable[[Check], Shortage]


class WayOuts:
    """Ways out of shortages, by question.

    One search runs at a time for hooks that leave, and one for those that stay until it ends, which
    queue behind no other. In this process it stands still while a hook answers, since threads share
    one interpreter.
    """

    def __init__(self) -> None:
        """Start empty; a thread starts with its first search."""
        self._threads = {
            is_awaited: ThreadPoolExecutor(1, thread_name_prefix="way-outs")
            for is_awaited in (False, True)
        }
        self._finished: OrderedDict[Hashable, Shortage] = OrderedDict()
        self._running: dict[tuple[Hashable, bool], Future[Shortage]] = {}
        self._lock = threading.Lock()
        self._num_answering = 0
        self._is_stopped = False
        self._is_idle = threading.Event()
        self._is_idle.set()

    @contextmanager
    def answer_first(self) -> Iterator[None]:
        """Let searches stand still for as long as the block takes."""
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def find(
        self, key: Hashable, search: Search, *, wait_s: float, is_awaited: bool = False
    ) -> Shortage | None:
        """Return the way out of a shortage, None where it takes longer.

        ``search`` calls its argument at each of its steps. What it raises is raised here.
        ``is_awaited`` says that the hook needs it to answer.
        """
        place = key, is_awaited
        with self._lock:
            if key in self._finished:
                self._finished.move_to_end(key)
                return self._finished[key]
            future = self._running.get(place)
            if future is None and len(self._running) >= MAX_WAITING:
                return None
            if future is None:
                future = self._threads[is_awaited].submit(search, self._give_way)
                self._running[place] = future
        future.add_done_callback(partial(self._finish, place))
        try:
            return future.result(wait_s)
        except TimeoutError:
            return None

    def stop(self) -> None:
        """End the search at its next step, and begin no other."""
        self._is_stopped = True
        for thread in self._threads.values():
            thread.shutdown(wait=False, cancel_futures=True)

    def check_running(self) -> None:
        """Do nothing, unless the server stops.

        Raises UnavailableError then.
        """
        if self._is_stopped:
            message = "the server stops"
            raise UnavailableError(message)

    def _give_way(self) -> None:
        self.check_running()
        self._is_idle.wait(_PAUSE_S)

    def _count(self, change: int) -> None:
        with self._lock:
            self._num_answering += change
            if self._num_answering:
                self._is_idle.clear()
            else:
                self._is_idle.set()

    def _finish(self, place: tuple[Hashable, bool], future: Future[Shortage]) -> None:
        with self._lock:
            self._running.pop(place, None)
            if future.cancelled() or future.exception() is not None:
                return
            self._finished[place[0]] = future.result()
            while len(self._finished) > MAX_KEPT:
                self._finished.popitem(last=False)
