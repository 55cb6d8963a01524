"""What else a stranger who can write to Redis may try: stop the workers, blind them, or have them
read what is not theirs.
"""

import json
import pickle
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from redis import Redis
from redis.exceptions import TimeoutError as RedisTimeoutError
from rq.exceptions import StopRequested
from rq.registry import (
    DeferredJobRegistry,
    FailedJobRegistry,
    FinishedJobRegistry,
    ScheduledJobRegistry,
    StartedJobRegistry,
)

from service.jobs.contract import JobPayload, ProbeDevice
from service.jobs.notify import (
    TASK,
    GuardedJob,
    Notifier,
    connect_to_listen,
    connect_to_notify,
    open_queue,
)
from worker.listener import Listener

PAYLOAD = JobPayload(job_id=UUID(int=42), attempt=2)
CALL = json.dumps([TASK, None, [str(PAYLOAD.job_id), PAYLOAD.attempt], {}])
REGISTRIES = (
    StartedJobRegistry,
    FinishedJobRegistry,
    FailedJobRegistry,
    DeferredJobRegistry,
    ScheduledJobRegistry,
)
MANY = 20


class Trap:
    """Unpickling it writes a file."""

    def __init__(self, path: Path) -> None:
        """Write to ``path``."""
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, bytes]]:
        """Run code when unpickled."""
        return Path.write_bytes, (self.path, b"ran")  # type: ignore[return-value]  # what an attacker sends need not type


@pytest.fixture
def redis(redis_url: str) -> Iterator["Redis"]:
    """Return the attacker's connection."""
    with closing(Redis.from_url(redis_url)) as client:
        yield client


def make_notifier(redis_url: str) -> Notifier:
    """Return a notifier on the test's Redis."""
    return Notifier(connect_to_notify(redis_url), job_timeout_s=60)


def hear(redis_url: str, *, turns: int = 3) -> list[JobPayload]:
    """Return what a worker hears in a few turns; like a worker it comes back when its ear was
    lost.
    """
    heard: list[JobPayload] = []
    left = iter(range(turns))

    def idle() -> None:
        if next(left, None) is None or heard:
            raise StopRequested

    for _ in range(turns):
        with closing(connect_to_listen(redis_url)) as client:
            listener = Listener(
                client, ProbeDevice.CPU, name=uuid4().hex, run_job=heard.append, idle=idle, wait_s=1
            )
            listener.work(logging_level=None)
    return heard


def test_the_key_that_suspends_rq_suspends_nobody(redis_url: str, redis: "Redis") -> None:
    """RQ's workers would sleep for as long as it is there, and look into Postgres no more."""
    redis.set("rq:suspended", 1)
    make_notifier(redis_url).notify(ProbeDevice.CPU, PAYLOAD)

    assert hear(redis_url) == [PAYLOAD]


@pytest.mark.parametrize(
    "ring", [b"\xff\xfe", b"", b"no such job", b"../../etc/passwd", b"a:b", b"x" * 100_000]
)
def test_a_forged_name_of_a_ring_stops_nobody(redis_url: str, redis: "Redis", ring: bytes) -> None:
    """A name without a job, or that is no text, is passed over, and the next ring is heard."""
    redis.rpush(open_queue(redis, ProbeDevice.CPU).key, ring)
    make_notifier(redis_url).notify(ProbeDevice.CPU, PAYLOAD)

    assert hear(redis_url) == [PAYLOAD]


def test_a_ring_of_many_megabytes_is_no_ring(redis_url: str, redis: "Redis") -> None:
    """It is dropped with its hash, and the next one is heard."""
    huge = json.dumps([TASK, None, ["x" * (8 << 20), 2], {}])
    fields = {
        "created_at": "2026-01-01T00:00:00.000000Z",
        "status": "queued",
        "origin": "measure-cpu",
        "data": huge,
    }
    redis.hset(GuardedJob.key_for("huge"), mapping=fields)
    redis.rpush(open_queue(redis, ProbeDevice.CPU).key, "huge")
    make_notifier(redis_url).notify(ProbeDevice.CPU, PAYLOAD)

    assert hear(redis_url) == [PAYLOAD]
    assert not redis.exists(GuardedJob.key_for("huge"))


@pytest.mark.parametrize("kind", ["set", "hset"])
def test_keys_of_the_wrong_type_are_counted_and_raise_nothing(
    redis_url: str, redis: "Redis", kind: str
) -> None:
    """A queue that is no list takes no rings; the notifier counts, the ear is lost, and both go on
    without.
    """
    key = open_queue(redis, ProbeDevice.CPU).key
    redis.set(key, "x") if kind == "set" else redis.hset(key, "x", "y")
    notifier = make_notifier(redis_url)

    notifier.notify(ProbeDevice.CPU, PAYLOAD)

    assert notifier.failures == 1
    assert hear(redis_url) == []


@pytest.mark.parametrize("registry", REGISTRIES)
def test_poison_in_any_registry_is_not_read(
    redis_url: str, redis: "Redis", registry: type[StartedJobRegistry], tmp_path: Path
) -> None:
    """RQ's maintenance and its scheduler would read the jobs of these; here nobody does."""
    trap = tmp_path / "trap"
    poison = pickle.dumps(Trap(trap))
    redis.hset("rq:job:poison", mapping={"data": poison, "meta": poison, "result": poison})
    redis.zadd(
        registry("measure-cpu", connection=redis).key, {"poison": 1.0, "poison:execution": 1.0}
    )
    make_notifier(redis_url).notify(ProbeDevice.CPU, PAYLOAD)

    assert hear(redis_url) == [PAYLOAD]
    assert not trap.exists()


MAINTENANCE = """
import sys
from redis import Redis
from rq import Queue, Worker
connection = Redis.from_url(sys.argv[1])
{first}
Worker([Queue("measure-cpu", connection=connection)], connection=connection).clean_registries()
"""


@pytest.mark.parametrize(
    ("first", "runs"),
    [("", True), ("from service.jobs.notify import refuse_pickle; refuse_pickle()", False)],
)
def test_a_worker_without_our_serializer_unpickles_nothing(
    redis_url: str, redis: "Redis", tmp_path: Path, *, first: str, runs: bool
) -> None:
    """RQ's maintenance with its default serializer, as its WorkerPool has it, runs the poison; in
    our processes it cannot.
    """
    trap = tmp_path / "trap"
    command = pickle.dumps(Trap(trap))
    redis.hset(
        "rq:job:poison",
        mapping={"created_at": "2026-01-01T00:00:00.000000Z", "data": b"", "meta": command},
    )
    redis.zadd(StartedJobRegistry("measure-cpu", connection=redis).key, {"poison:execution": 1.0})

    script = MAINTENANCE.format(first=first)
    subprocess.run(
        [sys.executable, "-c", script, redis_url], check=False, capture_output=True, timeout=60
    )

    assert trap.exists() is runs


def test_results_and_workers_that_were_forged_are_not_read(
    redis_url: str, redis: "Redis", tmp_path: Path
) -> None:
    """A result stream with a pickle, a worker that never was: a worker reads neither."""
    trap = tmp_path / "trap"
    poison = pickle.dumps(Trap(trap))
    redis.xadd("rq:results:ring", {"type": "1", "return_value": poison})
    redis.hset(
        "rq:worker:forged",
        mapping={"birth": "never", "queues": poison, "current_job": "ring", "pid": "x"},
    )
    redis.sadd("rq:workers", "rq:worker:forged", "rq:worker:gone", b"\xff")
    redis.sadd("rq:workers:measure-cpu", "rq:worker:forged")
    redis.hset(
        "rq:job:ring",
        mapping={"created_at": "2026-01-01T00:00:00.000000Z", "status": "queued", "data": CALL},
    )
    redis.rpush(open_queue(redis, ProbeDevice.CPU).key, "ring")

    assert hear(redis_url) == [PAYLOAD]
    assert not trap.exists()


def test_a_silent_redis_is_waited_for_once() -> None:
    """A loop that rings for many jobs would otherwise be kept for the sum of their timeouts, and
    find no lost lease.
    """
    now = 0.0
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = connect_to_notify(f"redis://127.0.0.1:{server.getsockname()[1]}/0")
        notifier = Notifier(connection, job_timeout_s=60, clock=lambda: now)
        for _ in range(MANY):
            notifier.notify(ProbeDevice.CPU, PAYLOAD)
        while_resting = num_waiting(server)
        now = 3600.0
        notifier.notify(ProbeDevice.CPU, PAYLOAD)
        afterwards = num_waiting(server)
        connection.close()

    assert notifier.failures == MANY + 1
    assert (while_resting, afterwards) == (1, 1)


def num_waiting(server: socket.socket) -> int:
    """Return how many connections came, and end them."""
    server.setblocking(False)  # noqa: FBT003 - the socket's own word
    number = 0
    with suppress(BlockingIOError):
        while True:
            server.accept()[0].close()
            number += 1
    return number


def test_an_ear_does_not_wait_for_a_silent_redis_for_long(redis_url: str) -> None:
    """While it waits nobody looks into Postgres, so it believes the silence for little longer than
    its own wait.
    """
    with closing(connect_to_listen(redis_url)) as client:
        Listener(
            client,
            ProbeDevice.CPU,
            name=uuid4().hex,
            run_job=lambda _: None,
            idle=lambda: None,
            wait_s=5,
        )

        assert client.connection_pool.connection_kwargs["socket_timeout"] == 7


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_lost_redis_gets_no_farewell(redis_url: str, redis: "Redis", *, is_lost: bool) -> None:
    """When the ear was lost, leaving does not wait for the same silence again; else RQ's tools are
    told.
    """

    def idle() -> None:
        raise RedisTimeoutError if is_lost else StopRequested

    with closing(connect_to_listen(redis_url)) as client:
        Listener(
            client, ProbeDevice.CPU, name="ear", run_job=lambda _: None, idle=idle, wait_s=1
        ).work(logging_level=None)

    assert redis.hexists("rq:worker:ear", "death") is not is_lost
