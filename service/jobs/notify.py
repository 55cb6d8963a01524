"""Notification of workers through RQ and Redis.

This is the only module that talks to them. A notification wakes workers sooner and decides nothing;
the row is the job.

Whoever can write to Redis can at most notify of jobs that exist: payloads are JSON, one function is
allowed, callbacks and webhooks are ignored, and RQ's pickling serializer raises in every process
that uses this module.
"""

import math
import queue
import secrets
import threading
import time
import zlib
from collections.abc import Callable
from typing import NoReturn

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from rq import Queue
from rq.exceptions import DeserializationError
from rq.job import Job
from rq.serializers import DefaultSerializer, JSONSerializer

from service.jobs.codec import decode_payload, unpack_data
from service.jobs.contract import JobPayload, ProbeDevice, ProtocolError
from service.runtime.logs import get_logger

TASK = "headroom.measure"
"""A word, not a function: no worker could import it, and ours reads only the arguments."""
RESULT_TTL_S = 60
UNANSWERED_TTL_S = 120
MAX_UNANSWERED_NOTIFICATIONS = 1000
NOTIFY_CONNECT_TIMEOUT_S = 0.3
NOTIFY_TIMEOUT_S = 0.5
LISTEN_CONNECT_TIMEOUT_S = 2
HEALTH_CHECK_INTERVAL_S = 10
MAX_WAITING_NOTIFICATIONS = 1000
RETRY_AFTER_S = 1.0
"""How long a Redis that did not answer is not called: a hundred notifications must not wait for it
one after the other.
"""

Notify = Callable[[ProbeDevice, JobPayload], None]

_log = get_logger(__name__)


class PickleRefusedError(RuntimeError):
    """Something asked RQ to pickle or unpickle."""


class GuardedJob(Job):
    """An RQ job that can only be a notification.

    One function, no bound instance, no callbacks, no webhooks, and no more data than a notification
    has.
    """

    def restore(self, raw_data: dict[bytes, bytes]) -> None:
        """Take the fields that Redis holds, and no bomb.

        RQ unpacks whatever is there: half a megabyte becomes half a gigabyte.
        """
        data = raw_data.get(b"data")
        if data is not None:
            raw_data = raw_data | {b"data": zlib.compress(unpack_data(data))}
        super().restore(raw_data)

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


class Notifier:
    """Notifier of workers about queued jobs.

    A Redis that cannot be reached is counted and logged, never raised.
    """

    def __init__(
        self,
        connection: "redis.Redis",
        *,
        job_timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        """Notify through ``connection``.

        ``job_timeout_s`` is RQ's own limit, which should never be the first to act.
        """
        refuse_pickle()
        self._connection = connection
        self._job_timeout_s = int(job_timeout_s)
        self._clock = clock
        self._on_failure = on_failure
        self._away_until = -math.inf
        self.failures = 0
        self._lock = threading.Lock()

    def notify(self, device: ProbeDevice, payload: JobPayload) -> None:
        """Notify once.

        A duplicate is harmless, since the claim takes only one.
        """
        if self._clock() < self._away_until:
            self.count_failure("Redis did not answer a moment ago")
            return
        try:
            rq_queue = open_queue(self._connection, device)
            rq_queue.enqueue_call(
                TASK,
                args=(str(payload.job_id), payload.attempt),
                timeout=self._job_timeout_s,
                result_ttl=RESULT_TTL_S,
                failure_ttl=RESULT_TTL_S,
                ttl=UNANSWERED_TTL_S,
                description=f"measurement {payload.job_id}",
                job_id=make_notification_id(payload),
            )
            # With no worker for hours every queued job is rung for every few seconds; the newest
            # rings say it all.
            self._connection.ltrim(rq_queue.key, -MAX_UNANSWERED_NOTIFICATIONS, -1)
        except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
            self._away_until = self._clock() + RETRY_AFTER_S
            self.count_failure(error)
        except (redis.RedisError, ValueError) as error:
            self.count_failure(error)

    def ping(self) -> bool:
        """Return whether Redis answers."""
        try:
            return bool(self._connection.ping())
        except (redis.RedisError, OSError):
            return False

    def count_failure(self, reason: object) -> None:
        """Count and log a failed notification.

        The reconcile loop and the workers' polls make up for it.
        """
        with self._lock:
            self.failures += 1
        self._on_failure()
        _log.warning("bell.failed", reason=str(reason), failures=self.failures)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class BackgroundNotifier:
    """Notifier with a thread of its own.

    A request never waits for Redis.
    """

    def __init__(self, notifier: Notifier) -> None:
        """Notify through ``notifier``; the thread starts with the first call."""
        self._notifier = notifier
        self._waiting: queue.Queue[tuple[ProbeDevice, JobPayload] | None] = queue.Queue(
            MAX_WAITING_NOTIFICATIONS
        )
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    @property
    def failures(self) -> int:
        """Failed notifications since the start."""
        return self._notifier.failures

    def ping(self) -> bool:
        """Return whether Redis answers."""
        return self._notifier.ping()

    def notify(self, device: ProbeDevice, payload: JobPayload) -> None:
        """Queue a notification and return at once."""
        self._start()
        try:
            self._waiting.put_nowait((device, payload))
        except queue.Full:
            self._notifier.count_failure(f"{MAX_WAITING_NOTIFICATIONS} rings wait already")

    def close(self) -> None:
        """Send what is queued, then close."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()
        self._notifier.close()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="notifier", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while (notification := self._waiting.get()) is not None:
            self._notifier.notify(*notification)


def connect_to_notify(redis_url: str) -> "redis.Redis":
    """Return a Redis client for notifying.

    It gives up soon: a notification is not worth a wait.
    """
    return redis.Redis.from_url(
        redis_url,
        socket_connect_timeout=NOTIFY_CONNECT_TIMEOUT_S,
        socket_timeout=NOTIFY_TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
    )


def connect_to_listen(redis_url: str) -> "redis.Redis":
    """Return a Redis client for a worker.

    RQ sets its read timeout to outlast the blocking pop.
    """
    return redis.Redis.from_url(
        redis_url,
        socket_connect_timeout=LISTEN_CONNECT_TIMEOUT_S,
        health_check_interval=HEALTH_CHECK_INTERVAL_S,
        retry=Retry(NoBackoff(), 0),
    )


def open_queue(connection: "redis.Redis", device: ProbeDevice) -> Queue:
    """Return the one queue of a device.

    A worker listens on one only, since RQ's pop from several can lose a job.
    """
    refuse_pickle()
    return Queue(
        f"measure-{device.value}",
        connection=connection,
        job_class=GuardedJob,
        serializer=JSONSerializer,
    )


def read_notification(job: Job) -> JobPayload:
    """Return the payload of a popped notification.

    Any other job is refused.
    """
    try:
        return decode_payload(list(job.args))
    except (DeserializationError, TypeError) as error:
        message = "it carries something else than a job and an attempt"
        raise ProtocolError(message) from error


def make_notification_id(payload: JobPayload) -> str:
    """Return a fresh id.

    RQ refuses an id that it has seen, and a job may be notified of again.
    """
    return f"{payload.job_id}_{payload.attempt}_{secrets.token_hex(4)}"


def skip_notification(_device: ProbeDevice, _payload: JobPayload) -> None:
    """Notify nobody: without Redis the workers' polls find the job."""


def refuse_pickle() -> None:
    """Make RQ's pickling serializer raise in this process.

    It raises wherever the serializer was forgotten; the pickle module stays as it is.
    """
    DefaultSerializer.dumps = staticmethod(_refuse)
    DefaultSerializer.loads = staticmethod(_refuse)


def _refuse(_value: object) -> NoReturn:
    message = "pickle is refused; pass serializer=JSONSerializer"
    raise PickleRefusedError(message)
