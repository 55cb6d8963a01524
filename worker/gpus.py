"""Supervisor of one worker process for each GPU.

CUDA shows a worker its own GPU only, and a worker that dies is started again. The supervisor runs
no job itself. It forwards signals to every worker, which ends its job first (SIGTERM) or gives it
up (SIGINT, or a second SIGTERM), and leaves when all workers have left.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import FrameType

from service.runtime.line_process import die_with_parent
from service.runtime.logs import get_logger
from worker.nvml.gpus import Gpu

_log = get_logger(__name__)

EXIT_CANNOT_START = 2
SHORTEST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
STABLE_AFTER_S = 300.0
"""Time after which a worker's death is not one of its start; the next pause is the shortest again.
"""
_TICK_S = 0.2

Command = Sequence[str]


def build_environment(gpu: Gpu, environ: Mapping[str, str]) -> dict[str, str]:
    """Build the environment of the worker of one GPU.

    The GPU is named by its UUID, which means the same under every numbering.
    """
    return {**environ, "CUDA_VISIBLE_DEVICES": gpu.uuid, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


@dataclass(slots=True, kw_only=True)
class GpuWorker:
    """The worker process of one GPU, across restarts."""

    gpu: Gpu
    process: "subprocess.Popen[bytes] | None" = None
    started_at: float = 0.0
    due: float = 0.0
    pause_s: float = SHORTEST_PAUSE_S


@dataclass(slots=True, kw_only=True)
class Supervisor:
    """Supervisor that keeps one worker per GPU running.

    ``command`` is the same for all.
    """

    command: Command
    environ: Mapping[str, str]
    workers: list[GpuWorker]
    clock: Callable[[], float] = time.monotonic
    _signals: list[int] = field(default_factory=list)
    _stopping: bool = False
    _could_not_start: bool = False

    def run(self) -> int:
        """Supervise until a signal and the last worker's end.

        Returns an exit status, not 0 when a worker cannot start at all.
        """
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        try:
            while self.poll_workers():
                time.sleep(_TICK_S)
        finally:
            self._kill()
        return EXIT_CANNOT_START if self._could_not_start else 0

    def poll_workers(self) -> bool:
        """Forward signals, reap dead workers and start those that are due.

        Returns whether the supervisor goes on: there are workers, or it is not stopping.
        """
        self._forward_signals()
        for worker in self.workers:
            self._check(worker)
        return not self._stopping or any(worker.process is not None for worker in self.workers)

    def _check(self, worker: GpuWorker) -> None:
        if worker.process is not None and (status := worker.process.poll()) is not None:
            worker.process = None
            self._record_exit(worker, status)
        if worker.process is None and not self._stopping and self.clock() >= worker.due:
            self._start(worker)

    def _start(self, worker: GpuWorker) -> None:
        parent = os.getpid()
        worker.started_at = self.clock()
        worker.process = subprocess.Popen(  # noqa: S603 - our own module
            self.command,
            env=build_environment(worker.gpu, self.environ),
            # A terminal's Ctrl-C comes to the supervisor, which passes it on: once is not twice.
            start_new_session=True,
            preexec_fn=lambda: die_with_parent(parent),  # noqa: PLW1509 - the supervisor has one thread
        )
        _log.info("worker.started", gpu=worker.gpu.uuid, pid=worker.process.pid)

    def _record_exit(self, worker: GpuWorker, status: int) -> None:
        if self._stopping:
            return
        if status == EXIT_CANNOT_START:
            # What is wrong is wrong for every worker, and it has said what.
            self._could_not_start = True
            self._stop(signal.SIGTERM)
            return
        worker.pause_s = (
            SHORTEST_PAUSE_S
            if self.clock() - worker.started_at >= STABLE_AFTER_S
            else min(LONGEST_PAUSE_S, 2 * worker.pause_s)
        )
        worker.due = self.clock() + worker.pause_s
        _log.warning("worker.died", gpu=worker.gpu.uuid, status=status, again_in_s=worker.pause_s)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._signals.append(number)

    def _forward_signals(self) -> None:
        while self._signals:
            self._stop(self._signals.pop(0))

    def _stop(self, number: int) -> None:
        self._stopping = True
        for process in self._list_live_processes():
            with suppress(ProcessLookupError):
                process.send_signal(number)

    def _kill(self) -> None:
        for process in self._list_live_processes():
            process.kill()
            process.wait()

    def _list_live_processes(self) -> "Iterable[subprocess.Popen[bytes]]":
        return [worker.process for worker in self.workers if worker.process is not None]
