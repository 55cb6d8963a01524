"""A small Headroom made of real processes.

They are Postgres, Redis, a reconcile loop and workers with a scripted probe.
"""

import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import psutil
from sqlalchemy.orm import Session, sessionmaker

from service.db.records.measurements import StoredMeasurement
from service.jobs.notify import Notify, skip_notification
from service.jobs.states import Status
from service.runtime.settings import Settings
from service.usecases.jobs import measurements
from tests.job_builders import a_request
from tests.running.forked import ForkedProgram, make_probe_command
from tests.waiting import eventually

# Short enough that a test sees a lease run out, long enough that a busy machine does not lose one
# by itself.
TIMES = {
    "HEADROOM_LEASE_S": "3",
    "HEADROOM_HEARTBEAT_S": "0.5",
    "HEADROOM_RECONCILE_INTERVAL_S": "0.1",
    "HEADROOM_RERING_AFTER_S": "1",
    "HEADROOM_POLL_INTERVAL_S": "0.5",
}
IN_TIME_S = 120.0
Script = list[dict[str, object]]


@dataclass(slots=True)
class System:
    """The processes of one test, and what it asks them."""

    sessions: sessionmaker[Session]
    environment: dict[str, str]
    dir: Path
    stack: ExitStack
    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def start_worker(
        self, *arguments: str, redis_url: str | None = None
    ) -> "subprocess.Popen[bytes]":
        """Start a worker whose probe plays the script of its request."""
        probe = f"{sys.executable} -m tests.fake_probe"
        environment = (
            self.environment if redis_url is None else {**self.environment, "REDIS_URL": redis_url}
        )
        return self._start(
            environment, "worker", "--device", "cpu", "--probe-command", probe, *arguments
        )

    def start_recorder(self) -> "subprocess.Popen[bytes]":
        """Start a worker whose recorder plays the script of its config."""
        recorder = f"{sys.executable} -m tests.e2e.kill.fake_recorder"
        device = ("--device", "trace", "--probe-command", "false")
        return self._start(self.environment, "worker", *device, "--recorder-command", recorder)

    def start_real_worker(self) -> "subprocess.Popen[bytes]":
        """Start a worker that runs real models."""
        probe = ("--probe-command", make_probe_command())
        return self._start(self.environment, "worker", "--device", "cpu", *probe)

    def start_reconcile(self) -> "subprocess.Popen[bytes]":
        """Start a reconcile loop."""
        return self._start(self.environment, "service", "reconcile")

    def keep_leases(self) -> None:
        """Give those that start from now on leases that no busy machine loses."""
        self.environment["HEADROOM_LEASE_S"] = "600"

    def start_api(self, listener: socket.socket) -> "subprocess.Popen[bytes]":
        """Start the API on a socket that outlives it.

        A supervisor or a proxy would hold the socket so.
        """
        number = listener.fileno()
        return self._start(
            self.environment, "service", "serve", "--fd", str(number), pass_fds=(number,)
        )

    def submit(self, script: Script, *, ring: Notify = skip_notification) -> UUID:
        """Ask for a measurement that plays ``script``."""
        request = a_request(script=script)
        return measurements.submit(
            self.sessions, request, key="k", settings=Settings(), notify=ring
        ).id

    def read(self, job_id: UUID) -> StoredMeasurement:
        """Return a job as it is now."""
        return measurements.read(self.sessions, job_id)

    def wait_for_end(self, job_id: UUID) -> StoredMeasurement:
        """Return a job when it is over."""
        eventually(lambda: self.read(job_id).status.is_terminal, within_s=IN_TIME_S)
        return self.read(job_id)

    def wait_for_pid(self, note: Path) -> int:
        """Return the process id that a probe wrote down."""
        eventually(note.exists, within_s=IN_TIME_S)
        return int(note.read_text())

    def statuses(self, job_id: UUID) -> list[tuple[str, int]]:
        """Return the statuses of a job in order, each with its attempt."""
        events = measurements.list_events_after(self.sessions, job_id, seq=0).events
        return [
            (str(event.data["status"]), int(str(event.data["attempt"])))
            for event in events
            if event.kind == "status"
        ]

    def _start(
        self,
        environment: dict[str, str],
        module: str,
        *arguments: str,
        pass_fds: tuple[int, ...] = (),
    ) -> "subprocess.Popen[bytes]":
        process = ForkedProgram(module, *arguments, env=environment, pass_fds=pass_fds)
        self.stack.callback(_end, process)
        self.processes.append(process)
        return process


def find_job_process(worker: "subprocess.Popen[bytes]") -> int:
    """Return the id of a worker's forked job process."""
    eventually(lambda: psutil.Process(worker.pid).children(), within_s=IN_TIME_S)
    return int(psutil.Process(worker.pid).children()[0].pid)


def build_environment(database_url: str) -> dict[str, str]:
    """Return the environment of our processes."""
    return {**os.environ, **TIMES, "DATABASE_URL": database_url}


def has_succeeded_once(system: System, job_id: UUID, *, attempt: int) -> bool:
    """Return whether a job has succeeded exactly once, in this attempt."""
    job = system.read(job_id)
    ends = [status for status, _ in system.statuses(job_id) if Status(status).is_terminal]
    return (
        job.status is Status.SUCCEEDED
        and ends == ["succeeded"]
        and job.result is not None
        and job.result.attempt == attempt
    )


def _end(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGCONT)
    process.kill()
    process.wait()
