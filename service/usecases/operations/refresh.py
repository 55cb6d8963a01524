"""Background thread that refreshes in-process copies of stored values.

Answers never wait for it.
"""

import threading
from collections.abc import Callable, Sequence

from service.runtime.logs import get_logger

log = get_logger(__name__)


class Refresher:
    """Thread that calls each task every ``interval_s`` seconds.

    It runs until it is stopped; a task that fails is logged and tried again.
    """

    def __init__(
        self,
        tasks: Sequence[Callable[[], None]],
        *,
        interval_s: float,
        runs_at_end: bool = False,
    ) -> None:
        """Prepare; nothing runs before ``start``.

        ``runs_at_end`` calls the tasks once more before it ends.
        """
        self._runs_at_end = runs_at_end
        self._tasks = tuple(tasks)
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._has_run = threading.Event()
        self._thread = threading.Thread(target=self._run, name="refresher", daemon=True)
        self._failing: set[int] = set()

    def start(self) -> None:
        """Begin in the background."""
        self._thread.start()

    def wait_for_first(self, timeout_s: float) -> bool:
        """Wait until every task was called once.

        Return False when ``timeout_s`` was too short.
        """
        return self._has_run.wait(timeout_s)

    def stop(self) -> None:
        """End, and wait for the task that runs."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def run_once(self) -> None:
        """Call every task once."""
        for index, task in enumerate(self._tasks):
            self._run_task(index, task)
        self._has_run.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.run_once()
            self._stop.wait(self._interval_s)
        if self._runs_at_end:
            self.run_once()

    def _run_task(self, index: int, task: Callable[[], None]) -> None:
        try:
            task()
        except Exception as error:  # noqa: BLE001 - whatever it is, the thread must live to try again
            # One line when the trouble begins, not one a second while the database is away.
            if index not in self._failing:
                log.warning(
                    "refresh.failed",
                    task=getattr(task, "__qualname__", repr(task)),
                    error=str(error),
                )
            self._failing.add(index)
        else:
            self._failing.discard(index)
