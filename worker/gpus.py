"""One worker for each GPU: a process of its own that CUDA shows nothing else, started again when it dies.

The supervisor works on nothing itself. A signal goes on to every worker, which ends its job first (SIGTERM) or gives it up
(SIGINT, or a second SIGTERM); the supervisor leaves when all have.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import FrameType

from service.runtime.logs import logger
from worker.nvml.gpus import Gpu
from worker.process import die_with_parent

_log = logger(__name__)

EXIT_CANNOT_START = 2
SHORTEST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
CALM_S = 300.0
"""A worker that lived this long did not die of its start: the next pause is the shortest again."""
_TICK_S = 0.2

Command = Sequence[str]


def environment_for(gpu: Gpu, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the worker of one GPU: by its UUID, which means the same under every numbering."""
    return {**environ, "CUDA_VISIBLE_DEVICES": gpu.uuid, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


@dataclass(slots=True, kw_only=True)
class Post:
    """The worker of one GPU over all its lives."""

    gpu: Gpu
    process: "subprocess.Popen[bytes] | None" = None
    began: float = 0.0
    due: float = 0.0
    pause_s: float = SHORTEST_PAUSE_S


@dataclass(slots=True, kw_only=True)
class Supervisor:
    """Keeps one worker per GPU running; ``command`` is the same for all."""

    command: Command
    environ: Mapping[str, str]
    posts: list[Post]
    clock: Callable[[], float] = time.monotonic
    _signals: list[int] = field(default_factory=list)
    _stopping: bool = False
    _could_not_start: bool = False

    def run(self) -> int:
        """Work until a signal and the last worker's end; return an exit status, not 0 when a worker cannot start at all."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        try:
            while self.tend():
                time.sleep(_TICK_S)
        finally:
            self._kill()
        return EXIT_CANNOT_START if self._could_not_start else 0

    def tend(self) -> bool:
        """Pass signals on, bury the dead, start whose turn it is; return whether there is anybody left to wait for."""
        self._forward()
        for post in self.posts:
            self._look_after(post)
        return not self._stopping or any(post.process is not None for post in self.posts)

    def _look_after(self, post: Post) -> None:
        if post.process is not None and (status := post.process.poll()) is not None:
            post.process = None
            self._bury(post, status)
        if post.process is None and not self._stopping and self.clock() >= post.due:
            self._start(post)

    def _start(self, post: Post) -> None:
        parent = os.getpid()
        post.began = self.clock()
        post.process = subprocess.Popen(  # noqa: S603 - our own module
            self.command,
            env=environment_for(post.gpu, self.environ),
            # A terminal's Ctrl-C comes to the supervisor, which passes it on: once is not twice.
            start_new_session=True,
            preexec_fn=lambda: die_with_parent(parent),  # noqa: PLW1509 - the supervisor has one thread
        )
        _log.info("worker.started", gpu=post.gpu.uuid, pid=post.process.pid)

    def _bury(self, post: Post, status: int) -> None:
        if self._stopping:
            return
        if status == EXIT_CANNOT_START:
            # What is wrong is wrong for every worker, and it has said what.
            self._could_not_start = True
            self._stop(signal.SIGTERM)
            return
        post.pause_s = SHORTEST_PAUSE_S if self.clock() - post.began >= CALM_S else min(LONGEST_PAUSE_S, 2 * post.pause_s)
        post.due = self.clock() + post.pause_s
        _log.warning("worker.died", gpu=post.gpu.uuid, status=status, again_in_s=post.pause_s)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._signals.append(number)

    def _forward(self) -> None:
        while self._signals:
            self._stop(self._signals.pop(0))

    def _stop(self, number: int) -> None:
        self._stopping = True
        for process in self._living():
            with suppress(ProcessLookupError):
                process.send_signal(number)

    def _kill(self) -> None:
        for process in self._living():
            process.kill()
            process.wait()

    def _living(self) -> "Iterable[subprocess.Popen[bytes]]":
        return [post.process for post in self.posts if post.process is not None]
