"""Notifiers, and workers that listen."""

from uuid import UUID, uuid4

from redis import Redis
from rq.exceptions import StopRequested

from service.jobs.contract import JobPayload, ProbeDevice
from service.jobs.notify import Notifier, connect_to_notify, open_queue
from worker.listener import Listener

JOB_ID = UUID(int=42)
PAYLOAD = JobPayload(job_id=JOB_ID, attempt=2)


def make_notifier(redis_url: str) -> Notifier:
    """Return a notifier on the test's Redis."""
    return Notifier(connect_to_notify(redis_url), job_timeout_s=60)


def listen_once(redis: "Redis") -> list[JobPayload]:
    """Let a worker's ear hear everything that waits, and return what it made of it."""
    heard: list[JobPayload] = []
    turns = iter(range(2))

    def idle() -> None:
        if next(turns, None) is None or not redis.llen(open_queue(redis, ProbeDevice.CPU).key):
            raise StopRequested

    listener = Listener(
        redis, ProbeDevice.CPU, name=uuid4().hex, run_job=heard.append, idle=idle, wait_s=1
    )
    listener.work(logging_level=None)
    return heard
