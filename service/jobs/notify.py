"""The bell: the only module that talks to RQ and Redis. It wakes workers sooner and decides nothing; the row is the job.

Whoever can write to Redis can at most ring for jobs that exist: payloads are JSON, one function is allowed, callbacks and
webhooks are ignored, and RQ's pickling serializer raises in every process that uses this module.
"""

import math
import queue
import secrets
import threading
import time
from collections.abc import Callable
from typing import NoReturn

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from rq import Queue
from rq.exceptions import DeserializationError
from rq.job import Job
from rq.serializers import DefaultSerializer, JSONSerializer

from service.jobs.codec import decode_payload
from service.jobs.contract import JobPayload, ProbeDevice, ProtocolError
from service.runtime.logs import logger

TASK = "headroom.measure"
"""A word, not a function: no worker could import it, and ours reads only the arguments."""
RESULT_TTL_S = 60
UNANSWERED_TTL_S = 120
MAX_UNANSWERED_RINGS = 1000
RING_CONNECT_TIMEOUT_S = 0.3
RING_TIMEOUT_S = 0.5
LISTEN_CONNECT_TIMEOUT_S = 2
HEALTH_CHECK_INTERVAL_S = 10
MAX_WAITING_RINGS = 1000
REST_S = 1.0
"""How long a Redis that did not answer is left alone: a hundred rings must not wait for it one after the other."""

Ring = Callable[[ProbeDevice, JobPayload], None]

_log = logger(__name__)


class PickleRefusedError(RuntimeError):
    """Something asked RQ to pickle or unpickle."""


class GuardedJob(Job):
    """An RQ job that can be nothing but a ring: one function, no bound instance, no callbacks, no webhooks."""

    def _deserialize_data(self) -> None:
        super()._deserialize_data()  # type: ignore[no-untyped-call]  # RQ annotates only some of its methods
        if self._func_name != TASK or self._instance is not None:
            message = f"{self._func_name!r} is no ring"
            raise DeserializationError(message)

    # RQ imports whatever these names say; a None is what it sees for a job without callbacks.
    success_callback = None
    failure_callback = None
    stopped_callback = None

    def send_webhooks(self, status: object, *, exc_string: str | None = None) -> None:
        """Send nothing: the targets would come from Redis."""


class Bell:
    """Rings for queued jobs; a bell that cannot be reached is counted and logged, never raised."""

    def __init__(
        self,
        connection: "redis.Redis",
        *,
        job_timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        """Ring through ``connection``; ``job_timeout_s`` is RQ's own limit, which should never be the first to act."""
        refuse_pickle()
        self._connection = connection
        self._job_timeout_s = int(job_timeout_s)
        self._clock = clock
        self._on_failure = on_failure
        self._resting_until = -math.inf
        self.failures = 0
        self._lock = threading.Lock()

    def ring(self, device: ProbeDevice, payload: JobPayload) -> None:
        """Ring once; a duplicate is harmless, since the claim takes only one."""
        if self._clock() < self._resting_until:
            self.count_failure("Redis did not answer a moment ago")
            return
        try:
            bells = open_queue(self._connection, device)
            bells.enqueue_call(
                TASK,
                args=(str(payload.job_id), payload.attempt),
                timeout=self._job_timeout_s,
                result_ttl=RESULT_TTL_S,
                failure_ttl=RESULT_TTL_S,
                ttl=UNANSWERED_TTL_S,
                description=f"measurement {payload.job_id}",
                job_id=ring_id(payload),
            )
            # With no worker for hours every queued job is rung for every few seconds; the newest rings say it all.
            self._connection.ltrim(bells.key, -MAX_UNANSWERED_RINGS, -1)
        except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
            self._resting_until = self._clock() + REST_S
            self.count_failure(error)
        except (redis.RedisError, ValueError) as error:
            self.count_failure(error)

    def ping(self) -> bool:
        """Tell whether Redis answers."""
        try:
            return bool(self._connection.ping())
        except (redis.RedisError, OSError):
            return False

    def count_failure(self, reason: object) -> None:
        """Count and log a ring that nobody heard; the reconcile loop and the workers' polls make up for it."""
        with self._lock:
            self.failures += 1
        self._on_failure()
        _log.warning("bell.failed", reason=str(reason), failures=self.failures)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class BackgroundBell:
    """A bell in a thread of its own, so that a request never waits for Redis."""

    def __init__(self, bell: Bell) -> None:
        """Ring through ``bell``; the thread starts with the first ring."""
        self._bell = bell
        self._waiting: queue.Queue[tuple[ProbeDevice, JobPayload] | None] = queue.Queue(MAX_WAITING_RINGS)
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    @property
    def failures(self) -> int:
        """Rings that nobody heard since the start."""
        return self._bell.failures

    def ping(self) -> bool:
        """Tell whether Redis answers."""
        return self._bell.ping()

    def ring(self, device: ProbeDevice, payload: JobPayload) -> None:
        """Ring soon, return now."""
        self._start()
        try:
            self._waiting.put_nowait((device, payload))
        except queue.Full:
            self._bell.count_failure(f"{MAX_WAITING_RINGS} rings wait already")

    def close(self) -> None:
        """Ring what waits, then close."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()
        self._bell.close()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="bell", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while (ring := self._waiting.get()) is not None:
            self._bell.ring(*ring)


def connect_to_ring(redis_url: str) -> "redis.Redis":
    """Return a client that gives up soon: a ring is not worth a wait."""
    return redis.Redis.from_url(
        redis_url,
        socket_connect_timeout=RING_CONNECT_TIMEOUT_S,
        socket_timeout=RING_TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
    )


def connect_to_listen(redis_url: str) -> "redis.Redis":
    """Return a client for a worker; RQ sets its read timeout to outlast the blocking pop."""
    return redis.Redis.from_url(
        redis_url,
        socket_connect_timeout=LISTEN_CONNECT_TIMEOUT_S,
        health_check_interval=HEALTH_CHECK_INTERVAL_S,
        retry=Retry(NoBackoff(), 0),
    )


def open_queue(connection: "redis.Redis", device: ProbeDevice) -> Queue:
    """Return the one queue of a device; a worker listens on one only, since RQ's pop from several can lose a job."""
    refuse_pickle()
    return Queue(f"measure-{device.value}", connection=connection, job_class=GuardedJob, serializer=JSONSerializer)


def read_ring(job: Job) -> JobPayload:
    """Return what a popped job rings for; anything but a ring of ours is refused."""
    try:
        return decode_payload(list(job.args))
    except (DeserializationError, TypeError) as error:
        message = "it carries something else than a job and an attempt"
        raise ProtocolError(message) from error


def ring_id(payload: JobPayload) -> str:
    """Return a fresh id: RQ refuses an id that it has seen, and a job may be rung for again."""
    return f"{payload.job_id}_{payload.attempt}_{secrets.token_hex(4)}"


def no_bell(_device: ProbeDevice, _payload: JobPayload) -> None:
    """Ring nothing: without Redis the workers' polls of Postgres find the job."""


def refuse_pickle() -> None:
    """Make RQ's pickling serializer raise in this process, wherever it was forgotten; the pickle module stays as it is."""
    DefaultSerializer.dumps = staticmethod(_refuse)
    DefaultSerializer.loads = staticmethod(_refuse)


def _refuse(_value: object) -> NoReturn:
    message = "pickle is refused; pass serializer=JSONSerializer"
    raise PickleRefusedError(message)
