"""A worker's shift: wait for a ring or for the next look into Postgres, run one job at a time, leave in order.

The loop has one thread, since it forks. SIGTERM lets the running job end first; SIGINT, or a second SIGTERM, gives it up
so that another worker can begin it again at once.
"""

import secrets
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

from redis import Redis, RedisError
from rq.exceptions import StopRequested

from service.base.errors import ServiceError
from service.jobs.contract import JobPayload
from service.jobs.notify import connect_to_listen
from service.runtime.logs import logger
from service.usecases.jobs import attempts, workers
from service.usecases.jobs.workers import WorkerInfo
from service.usecases.stored import Sessions
from worker import tasks
from worker.job_process import Horse
from worker.listener import Listener
from worker.nvml.idle import IdleGpu
from worker.tasks import Workplace

_log = logger(__name__)

STOP_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM})

MakeSessions = Callable[[], Sessions]


@dataclass(slots=True)
class Shift:
    """One worker from its first to its last job; ``open_sessions`` makes sessions that no fork shares."""

    workplace: Workplace
    info: WorkerInfo
    sessions: Sessions
    open_sessions: MakeSessions
    idle_gpu: IdleGpu | None = None
    _horse: Horse | None = None
    _is_idle: bool = True
    _stopping: bool = False
    _gives_up: bool = False
    _next_beat: float = 0.0
    _next_poll: float = 0.0

    def work(self, *, burst: bool = False) -> None:
        """Work until a signal says otherwise; with ``burst`` until no job is queued."""
        for number in STOP_SIGNALS:
            signal.signal(number, self._on_signal)
        # A supervisor that holds its own signals hands its mask down.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        try:
            self._register()
            if burst:
                self.tend()
            while not (burst or self._stopping):
                self._listen_or_wait()
        except StopRequested:
            _log.info("worker.stops")
        finally:
            self._say_goodbye()

    def tend(self, *, show_alive: Callable[[], None] | None = None) -> None:
        """Show that this worker lives, and run what Postgres has queued; ``show_alive`` is for Redis, during a job."""
        while not self._stopping:
            try:
                self._beat(is_busy=False)
                payload = self._poll()
            except ServiceError as error:
                _log.warning("database.away", reason=error.detail)
                return
            if payload is None or not self.answer(payload, show_alive=show_alive):
                return
        raise StopRequested

    def answer(self, payload: JobPayload, *, show_alive: Callable[[], None] | None = None) -> bool:
        """Run the next attempt at a queued job in a horse; false when the horse died without having claimed it."""
        # From here a signal raises nothing: neither the horse nor its account may be lost to it.
        self._is_idle = False
        try:
            self._horse = Horse(lambda: tasks.answer(self.workplace, self.open_sessions(), payload))
            if self._gives_up:
                self._horse.kill()
            status = self._horse.wait(tick=lambda: self._tick(show_alive), tick_s=self.workplace.settings.heartbeat_s)
            return status == 0 or self._release(payload, status)
        finally:
            self._horse = None
            self._is_idle = True
            self._next_beat = self._next_poll = 0.0

    @property
    def _wait_s(self) -> float:
        settings = self.workplace.settings
        return min(settings.poll_interval_s, settings.heartbeat_s)

    def _poll(self) -> JobPayload | None:
        if time.monotonic() < self._next_poll:
            return None
        payload = attempts.find_queued(self.sessions, device=self.workplace.device, gpu=self.workplace.gpu)
        if payload is None:
            self._next_poll = time.monotonic() + self.workplace.settings.poll_interval_s
        return payload

    def _listen_or_wait(self) -> None:
        self.tend()
        redis_url = self.workplace.settings.redis_url
        if redis_url is not None:
            try:
                self._listen(connect_to_listen(redis_url))
            except RedisError as error:
                _log.warning("bell.unreachable", reason=str(error))
        if not self._stopping:
            time.sleep(self._wait_s)

    def _listen(self, connection: "Redis") -> None:
        listener: Listener | None = None

        def wake(_payload: JobPayload) -> None:
            # A ring says that there is work; which job goes first, Postgres says: rings come in the order of submission.
            self._next_poll = 0.0
            self.tend(show_alive=None if listener is None else listener.show_alive)

        listener = Listener(
            connection,
            self.workplace.device,
            name=f"{self.info.name}-{secrets.token_hex(2)}",
            answer=wake,
            idle=self.tend,
            wait_s=self._wait_s,
        )
        try:
            listener.work(logging_level=None)
        finally:
            connection.close()

    def _release(self, payload: JobPayload, status: int) -> bool:
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        reason = f"the process that supervised its probe {how}"
        _log.warning("horse.died", job_id=str(payload.job_id), reason=reason)
        try:
            released = attempts.release(self.sessions, payload.job_id, attempt=payload.attempt + 1, reason=reason)
        except ServiceError as error:
            _log.warning("release.missed", job_id=str(payload.job_id), reason=error.detail)
            return False
        return released is not None

    def _tick(self, show_alive: Callable[[], None] | None) -> None:
        try:
            self._beat(is_busy=True)
        except ServiceError as error:
            _log.warning("database.away", reason=error.detail)
        if show_alive is not None:
            show_alive()

    def _beat(self, *, is_busy: bool) -> None:
        if time.monotonic() >= self._next_beat or is_busy:
            # During a job the probe is on the GPU too, and it says itself who was there beside it.
            observed = None if is_busy or self.idle_gpu is None else self.idle_gpu.look(time.monotonic())
            workers.beat(self.sessions, self.info, is_busy=is_busy, observed=observed)
            self._next_beat = time.monotonic() + self.workplace.settings.heartbeat_s

    def _register(self) -> None:
        try:
            workers.register(self.sessions, self.info)
        except ServiceError as error:
            # The first heartbeat that gets through registers it.
            _log.warning("database.away", reason=error.detail)

    def _say_goodbye(self) -> None:
        try:
            workers.leave(self.sessions, self.info.name)
        except ServiceError as error:
            _log.warning("database.away", reason=error.detail)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._gives_up = self._gives_up or self._stopping or number == signal.SIGINT
        self._stopping = True
        if self._is_idle:
            raise StopRequested
        if self._gives_up and self._horse is not None:
            self._horse.kill()
