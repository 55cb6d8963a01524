"""A worker's main loop.

It waits for a notification or the next poll of Postgres, runs one job at a time and leaves in
order. The loop has one thread, since it forks. SIGTERM lets the running job end first; SIGINT, or a
second SIGTERM, gives it up so that another worker can begin it again at once.
"""

import secrets
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from uuid import UUID

from redis import Redis, RedisError
from rq.exceptions import StopRequested

from service.base.errors import ServiceError
from service.jobs.contract import JobPayload
from service.jobs.notify import connect_to_listen
from service.runtime.logs import get_logger
from service.usecases.jobs import attempts, workers
from service.usecases.jobs.workers import WorkerInfo
from service.usecases.stored import Sessions
from worker import tasks
from worker.context import WorkerContext
from worker.job_process import JobProcess
from worker.listener import Listener
from worker.nvml.idle import IdleGpu

_log = get_logger(__name__)

STOP_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM})

MakeSessions = Callable[[], Sessions]


@dataclass(slots=True)
class WorkerLoop:
    """The loop of one worker from its first to its last job.

    ``open_sessions`` makes sessions that no fork shares.
    """

    context: WorkerContext
    info: WorkerInfo
    sessions: Sessions
    open_sessions: MakeSessions
    idle_gpu: IdleGpu | None = None
    _job_process: JobProcess | None = None
    _is_waiting: bool = False
    _stopping: bool = False
    _abandons_job: bool = False
    _next_beat: float = 0.0
    _next_poll: float = 0.0
    _unreadable: set[UUID] = field(default_factory=set)
    """Jobs of a later version, which its workers run."""

    def work(self, *, burst: bool = False) -> None:
        """Work until a signal, or with ``burst`` until no job is queued."""
        for signum in STOP_SIGNALS:
            signal.signal(signum, self._on_signal)
        # A supervisor that holds its own signals hands its mask down.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        try:
            self._register()
            if burst:
                self.run_queued()
            while not (burst or self._stopping):
                self._listen_or_wait()
        except StopRequested:
            _log.info("worker.stops")
        finally:
            self._unregister()

    def run_queued(self, *, send_heartbeat: Callable[[], None] | None = None) -> None:
        """Send a heartbeat and run the jobs that Postgres has queued.

        ``send_heartbeat`` is for Redis, during a job. Raises StopRequested after a signal.
        """
        with self._hold_signals():
            while not self._stopping:
                try:
                    self._beat(is_busy=False)
                    payload = self._poll()
                except ServiceError as error:
                    _log.warning("database.away", reason=error.detail)
                    return
                if payload is None or not self.run_job(payload, send_heartbeat=send_heartbeat):
                    return

    def run_job(
        self, payload: JobPayload, *, send_heartbeat: Callable[[], None] | None = None
    ) -> bool:
        """Run the next attempt at a queued job in a forked process.

        Returns False when the process died without having claimed the job.
        """
        try:
            self._job_process = JobProcess(
                lambda: tasks.run_attempt(self.context, self.open_sessions(), payload)
            )
            if self._abandons_job:
                self._job_process.kill()
            status = self._job_process.wait(
                tick=lambda: self._tick(send_heartbeat), tick_s=self.context.settings.heartbeat_s
            )
            return status == 0 or self._release(payload, status)
        finally:
            self._job_process = None
            self._next_beat = self._next_poll = 0.0

    @contextmanager
    def _wait_for_signals(self) -> Iterator[None]:
        """Let a signal end a sleep or a wait for Redis."""
        self._is_waiting = True
        try:
            # A signal that came just before has raised nothing.
            self._raise_if_stopping()
            yield
        finally:
            self._is_waiting = False

    @contextmanager
    def _hold_signals(self) -> Iterator[None]:
        """Let no signal break off what runs; raise StopRequested after it.

        A connection that is left in the middle of a statement cannot be used or given back, and
        neither a job's process nor its account may be lost.
        """
        was_waiting, self._is_waiting = self._is_waiting, False
        try:
            yield
            self._is_waiting = was_waiting
            self._raise_if_stopping()
        finally:
            self._is_waiting = was_waiting

    def _raise_if_stopping(self) -> None:
        if self._stopping:
            raise StopRequested

    @property
    def _wait_s(self) -> float:
        settings = self.context.settings
        return min(settings.poll_interval_s, settings.heartbeat_s)

    def _poll(self) -> JobPayload | None:
        if time.monotonic() < self._next_poll:
            return None
        payload = attempts.find_queued(
            self.sessions,
            device=self.context.device,
            gpu=self.context.gpu,
            unreadable=self._unreadable,
        )
        if payload is None:
            self._next_poll = time.monotonic() + self.context.settings.poll_interval_s
        return payload

    def _listen_or_wait(self) -> None:
        self.run_queued()
        redis_url = self.context.settings.redis_url
        if redis_url is not None:
            try:
                self._listen(connect_to_listen(redis_url))
            except RedisError as error:
                _log.warning("bell.unreachable", reason=str(error))
        with self._wait_for_signals():
            time.sleep(self._wait_s)

    def _listen(self, connection: "Redis") -> None:
        listener: Listener | None = None

        def wake(_payload: JobPayload) -> None:
            # A ring says that there is work; which job goes first, Postgres says: rings come in the
            # order of submission.
            self._next_poll = 0.0
            self.run_queued(send_heartbeat=None if listener is None else listener.send_heartbeat)

        listener = Listener(
            connection,
            self.context.device,
            name=f"{self.info.name}-{secrets.token_hex(2)}",
            run_job=wake,
            idle=self.run_queued,
            wait_s=self._wait_s,
        )
        try:
            with self._wait_for_signals():
                listener.work(logging_level=None)
        finally:
            connection.close()

    def _release(self, payload: JobPayload, status: int) -> bool:
        cause = (
            f"was killed by {signal.Signals(-status).name}"
            if status < 0
            else f"ended with status {status}"
        )
        reason = f"the process that supervised its probe {cause}"
        _log.warning("horse.died", job_id=str(payload.job_id), reason=reason)
        try:
            released = attempts.release(
                self.sessions, payload.job_id, attempt=payload.attempt + 1, reason=reason
            )
        except ServiceError as error:
            _log.warning("release.missed", job_id=str(payload.job_id), reason=error.detail)
            return False
        return released is not None

    def _tick(self, send_heartbeat: Callable[[], None] | None) -> None:
        try:
            self._beat(is_busy=True)
        except ServiceError as error:
            _log.warning("database.away", reason=error.detail)
        if send_heartbeat is not None:
            send_heartbeat()

    def _beat(self, *, is_busy: bool) -> None:
        if time.monotonic() >= self._next_beat or is_busy:
            # During a job the probe is on the GPU too, and it says itself who was there beside it.
            observed = (
                None
                if is_busy or self.idle_gpu is None
                else self.idle_gpu.observe(time.monotonic())
            )
            workers.record_heartbeat(self.sessions, self.info, is_busy=is_busy, observed=observed)
            self._next_beat = time.monotonic() + self.context.settings.heartbeat_s

    def _register(self) -> None:
        try:
            workers.register(self.sessions, self.info)
        except ServiceError as error:
            # The first heartbeat that gets through registers it.
            _log.warning("database.away", reason=error.detail)

    def _unregister(self) -> None:
        try:
            workers.mark_stopped(self.sessions, self.info.name)
        except ServiceError as error:
            _log.warning("database.away", reason=error.detail)

    def _on_signal(self, signum: int, _frame: FrameType | None) -> None:
        self._abandons_job = self._abandons_job or self._stopping or signum == signal.SIGINT
        self._stopping = True
        if self._is_waiting:
            raise StopRequested
        if self._abandons_job and self._job_process is not None:
            self._job_process.kill()
