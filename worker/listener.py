"""RQ's worker, reduced to a listener for notifications.

All job state is in Postgres. RQ would keep its own account of every job in Redis: started,
heartbeat, failed, retried. Here a notification is taken off Redis before the work begins, so Redis
may die, restart empty or be written to by strangers in the middle of a job.
"""

from collections.abc import Callable

from redis import Redis, RedisError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from rq import Queue, Worker, worker_registration
from rq.exceptions import DequeueTimeout
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.utils import now
from rq.worker import WorkerStatus

from service.jobs.contract import JobPayload, ProbeDevice, ProtocolError
from service.jobs.notify import GuardedJob, open_queue, read_notification
from service.runtime.logs import get_logger

WORKER_TTL_S = 30
MAINTENANCE_INTERVAL_S = 30
JOB_MONITORING_INTERVAL_S = 5
RESPONSE_TIMEOUT_S = 2
"""Time that Redis may take to answer, beyond the wait that was requested."""

_log = get_logger(__name__)


class Listener(Worker):
    """A forking RQ worker on one queue whose jobs are notifications.

    ``idle`` runs between notifications, ``run_job`` runs a job to its end.
    """

    def __init__(
        self,
        connection: "Redis",
        device: ProbeDevice,
        *,
        name: str,
        run_job: Callable[[JobPayload], None],
        idle: Callable[[], None],
        wait_s: float,
    ) -> None:
        """Listen for ``device`` and call ``idle`` every ``wait_s`` seconds.

        Redis refuses a worker name that it already has.
        """
        self._run_job = run_job
        self._idle = idle
        self._is_lost = False
        self._wait_s = max(1, round(wait_s))
        super().__init__(
            [open_queue(connection, device)],
            name=name,
            connection=connection,
            job_class=GuardedJob,
            serializer=JSONSerializer,
            worker_ttl=WORKER_TTL_S,
            maintenance_interval=MAINTENANCE_INTERVAL_S,
            job_monitoring_interval=JOB_MONITORING_INTERVAL_S,
            log_job_description=False,
        )

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Take the notification off Redis, then run its job."""
        self._remove(job.id, queue)
        try:
            payload = read_notification(job)
        except ProtocolError as error:
            _log.warning("bell.refused", ring=job.id, reason=str(error))
            return
        self.set_state(WorkerStatus.BUSY)
        self._run_job(payload)

    def dequeue_job_and_maintain_ttl(
        self, timeout: int | None, max_idle_time: int | None = None
    ) -> tuple[Job, Queue] | None:
        """Wait for a notification as RQ does, polling Postgres in between.

        Without Redis this ends RQ's loop, not the worker.
        """
        del timeout, max_idle_time
        try:
            self.set_state(WorkerStatus.IDLE)
            while (notification := self._poll_once()) is None:
                continue
        except RedisError as error:
            _log.warning("bell.lost", reason=str(error))
            self._is_lost = True
            return None
        return notification

    def run_maintenance_tasks(self) -> None:
        """Remove dead workers and notifications that were popped and never read.

        RQ's own registries stay empty and unread.
        """
        for queue in self.queues:
            worker_registration.clean_worker_registry(queue)
            self.connection.delete(queue.intermediate_queue_key)
        self.last_cleaned_at = now()  # type: ignore[assignment]  # RQ infers None from its first value

    def send_heartbeat(self) -> None:
        """Send a heartbeat to RQ's registry during a job.

        It keeps the worker visible to RQ's tools; a failure does not affect the job.
        """
        try:
            self.heartbeat()
        except RedisError as error:
            _log.info("bell.heartbeat_missed", reason=str(error))

    def get_heartbeat_ttl(self, job: Job) -> int:
        """Return the TTL without the minute that RQ adds.

        That minute would delay every detection of a dead worker.
        """
        del job
        return WORKER_TTL_S

    @property
    def connection_timeout(self) -> int:
        """Seconds that Redis may be silent.

        It is the pop's own wait and a moment: meanwhile nobody polls Postgres.
        """
        return self._wait_s + RESPONSE_TIMEOUT_S

    def check_for_suspension(self, burst: bool) -> None:  # noqa: FBT001 - as RQ declares it
        """Ignore suspension requests in Redis.

        A key in Redis would suspend every worker, and anybody who can write there could set it.
        """
        del burst

    def register_death(self) -> None:
        """Unregister from Redis, unless the connection to it was lost.

        A second wait would be for the same silence.
        """
        if not self._is_lost:
            super().register_death()  # type: ignore[no-untyped-call]  # RQ annotates only some of its methods

    def subscribe(self) -> None:
        """Take no commands from Redis.

        Anybody who can write there could stop workers; a cancelled job has that in its row.
        """

    def unsubscribe(self) -> None:
        """Do nothing: there is no subscription."""

    def _install_signal_handlers(self) -> None:
        """Leave signals to the worker, which runs without Redis too."""

    def _poll_once(self) -> tuple[Job, Queue] | None:
        self._idle()
        self.heartbeat()
        if self.should_run_maintenance_tasks:
            self.run_maintenance_tasks()
        try:
            return self._wait_for_notification()
        except DequeueTimeout:
            return None
        except (RedisConnectionError, RedisTimeoutError):
            raise
        except Exception as error:
            # RQ marks what it raises on a job that it popped and cannot read, whatever that is; it
            # is not met again.
            if not hasattr(error, "job_id"):
                raise
            _log.warning("bell.unreadable", reason=repr(error))
            return None

    def _wait_for_notification(self) -> tuple[Job, Queue] | None:
        return self.queue_class.dequeue_any(
            self._ordered_queues,
            self._wait_s,
            connection=self.connection,
            job_class=self.job_class,
            serializer=self.serializer,
            death_penalty_class=self.death_penalty_class,
        )

    def _remove(self, job_id: str, queue: Queue) -> None:
        queue.intermediate_queue.remove(job_id)
        self.connection.delete(GuardedJob.key_for(job_id))
