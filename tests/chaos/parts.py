"""Processes of the rig that can be killed, frozen and restarted."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

from service.base.startup_errors import EmbeddedServerError
from service.embedded.children import Child, Process, start, stop, wait_ready
from service.embedded.events import NULL_LOG

START_WITHIN_S = 60.0

Launch = Callable[[Child], Process]


def launch_fresh(child: Child) -> Process:
    """Start a part as a cluster would: a program that imports all it needs."""
    return start(child, NULL_LOG)


@dataclass(slots=True)
class Part:
    """One process of the rig that can be restarted.

    Start it from the main thread: it dies with that.
    """

    child: Child
    launch: Launch = launch_fresh
    process: Process | None = None
    frozen: list[psutil.Process] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The part's name in the faults."""
        return self.child.name

    @property
    def is_up(self) -> bool:
        """Whether the process runs, frozen or not."""
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start the process and wait until it is ready.

        A server that still recovers from its death is started again.
        """
        end = time.monotonic() + START_WITHIN_S
        while True:
            self.process = self.launch(self.child)
            try:
                wait_ready(self.child, self.process)
            except EmbeddedServerError:
                if time.monotonic() > end:
                    raise
                self.process.wait()
            else:
                return

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send the leader a fatal signal and wait for its end."""
        if self.process is not None:
            self.thaw()
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, number)
            self.process.wait()

    def kill_all(self) -> None:
        """Kill the process and its descendants, as a host's death would."""
        for process in self.tree():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.kill()

    def freeze(self, *, whole_tree: bool = True) -> None:
        """Suspend the process tree, or only its descendants."""
        tree = self.tree()
        self.frozen = tree if whole_tree else tree[1:]
        for process in self.frozen:
            with suppress(psutil.NoSuchProcess):
                process.suspend()

    def thaw(self) -> None:
        """Resume the frozen processes, the youngest first.

        A job's process that resumes finds its probe running.
        """
        for process in reversed(self.frozen):
            with suppress(psutil.NoSuchProcess):
                process.resume()
        self.frozen = []

    def tree(self) -> list[psutil.Process]:
        """Return the process and its descendants.

        Those of a worker are its job's process and the probe.
        """
        if self.process is None or not self.is_up:
            return []
        with suppress(psutil.NoSuchProcess):
            leader = psutil.Process(self.process.pid)
            return [leader, *leader.children(recursive=True)]
        return []

    def end(self) -> None:
        """Stop the process for good."""
        if self.process is not None:
            self.thaw()
            stop(self.child, self.process, NULL_LOG)
