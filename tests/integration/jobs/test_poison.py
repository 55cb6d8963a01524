"""Poison that a stranger writes into Redis runs nothing."""

import json
import pickle
import select
import socket
import tracemalloc
import zlib
from pathlib import Path
from typing import cast

import pytest
from redis import Redis
from rq import Queue
from rq.exceptions import DeserializationError, StopRequested
from rq.job import Job
from rq.registry import StartedJobRegistry
from rq.serializers import DefaultSerializer, JSONSerializer

from service.jobs.contract import ProbeDevice, ProtocolError
from service.jobs.notify import TASK, GuardedJob, open_queue, read_notification
from tests.integration.jobs.builders import JOB_ID, PAYLOAD, listen_once, make_notifier
from worker.listener import Listener

GOOD_CALL = json.dumps([TASK, None, [str(JOB_ID), 2], {}])


class Trap:
    """Unpickling it writes a file."""

    def __init__(self, path: Path) -> None:
        """Write to ``path``."""
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, bytes]]:
        """Run code when unpickled."""
        return Path.write_bytes, (self.path, b"ran")  # type: ignore[return-value]  # what an attacker sends need not type


def plant(redis: "Redis", ring: str, **fields: bytes | str) -> None:
    """Write a job as a stranger would, and put it into the queue."""
    mapping = {
        "created_at": "2026-01-01T00:00:00.000000Z",
        "status": "queued",
        "origin": "measure-cpu",
        "timeout": "60",
        **fields,
    }
    redis.hset(GuardedJob.key_for(ring), mapping=mapping)
    redis.rpush(open_queue(redis, ProbeDevice.CPU).key, ring)


@pytest.mark.parametrize("serializer", [None, DefaultSerializer, "pickle"])
def test_a_forgotten_serializer_raises(
    redis: "Redis", serializer: type[DefaultSerializer] | str | None, tmp_path: Path
) -> None:
    """In a process that uses the notifier, RQ's own default neither writes nor reads pickles."""
    open_queue(redis, ProbeDevice.CPU)
    trap = tmp_path / "trap"
    redis.hset(
        "rq:job:x",
        mapping={
            "created_at": "2026-01-01T00:00:00.000000Z",
            "data": b"",
            "meta": pickle.dumps(Trap(trap)),
        },
    )

    Job.fetch("x", connection=redis, serializer=serializer)
    with pytest.raises(RuntimeError, match="pickle is refused"):
        Queue("q", connection=redis, serializer=serializer).enqueue(TASK)

    assert not trap.exists()


@pytest.mark.parametrize("field", ["data", "meta", "result"])
def test_a_pickle_in_any_field_runs_nothing(redis: "Redis", tmp_path: Path, field: str) -> None:
    """Payload, meta and result are read as JSON or not at all."""
    trap = tmp_path / "trap"
    fields: dict[str, bytes | str] = {"data": GOOD_CALL, field: pickle.dumps(Trap(trap))}
    plant(redis, "poison", **fields)

    heard = listen_once(redis)

    assert not trap.exists()
    assert heard == ([] if field == "data" else [PAYLOAD])


@pytest.mark.parametrize(
    "call",
    [
        ["os.system", None, ["touch {trap}"], {}],
        ["subprocess.run", None, [["touch", "{trap}"]], {}],
        [TASK, "os", [str(JOB_ID), 2], {}],
        [TASK, None, ["{trap}", 2], {}],
        [TASK, None, [str(JOB_ID)], {}],
        [TASK, None, 7, {}],
        "not a call",
        [],
    ],
)
def test_another_function_is_not_called(redis: "Redis", tmp_path: Path, call: object) -> None:
    """JSON that names any other callable, an instance or other arguments is dropped."""
    trap = tmp_path / "trap"
    plant(redis, "poison", data=json.dumps(call).replace("{trap}", str(trap)))

    heard = listen_once(redis)

    assert heard == []
    assert not trap.exists()
    assert not redis.exists(GuardedJob.key_for("poison"))


@pytest.mark.parametrize("layers", [1, 2])
def test_data_that_unpacks_to_gigabytes_is_not_unpacked(redis: "Redis", layers: int) -> None:
    """RQ unpacks whatever it finds; a worker takes as much as a notification has, and drops it."""
    bomb = zlib.compress(bytes(64 << 20))
    for _ in range(layers - 1):
        bomb = zlib.compress(bomb)
    plant(redis, "poison", data=bomb)

    tracemalloc.start()
    try:
        heard = listen_once(redis)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert heard == []
    assert peak_bytes < 16 << 20
    assert not redis.exists(GuardedJob.key_for("poison"))


@pytest.mark.parametrize("callback", ["success", "failure", "stopped"])
def test_callbacks_are_not_called(redis: "Redis", tmp_path: Path, callback: str) -> None:
    """RQ would import whatever a callback's name says."""
    plant(redis, "poison", data=GOOD_CALL, **{f"{callback}_callback_name": "os.system"})
    job = GuardedJob.fetch("poison", connection=redis, serializer=JSONSerializer)

    assert getattr(job, f"{callback}_callback") is None
    assert listen_once(redis) == [PAYLOAD]
    assert list(tmp_path.iterdir()) == []


def test_webhooks_are_not_sent(redis: "Redis") -> None:
    """Redis must not be able to make a worker call a URL."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        plant(
            redis,
            "poison",
            data=GOOD_CALL,
            webhooks=json.dumps([{"url": url, "job_status": "finished"}]),
        )
        job = GuardedJob.fetch("poison", connection=redis, serializer=JSONSerializer)

        assert job.webhooks
        job.send_webhooks("finished")

        assert select.select([server], [], [], 0)[0] == []


def test_poison_in_a_registry_is_not_read(redis: "Redis", tmp_path: Path) -> None:
    """RQ's maintenance reads the jobs of its registries; ours has no business there."""
    trap = tmp_path / "trap"
    redis.hset(
        "rq:job:poison",
        mapping={"data": pickle.dumps(Trap(trap)), "meta": pickle.dumps(Trap(trap))},
    )
    registry = StartedJobRegistry("measure-cpu", connection=redis, serializer=JSONSerializer)
    redis.zadd(registry.key, {"poison:execution": 1.0})

    listen_once(redis)

    assert not trap.exists()


@pytest.mark.parametrize(
    "field", ["created_at", "status", "timeout", "dependency_ids", "success_callback_timeout"]
)
def test_a_job_that_rq_cannot_read_stops_nobody(redis_url: str, redis: "Redis", field: str) -> None:
    """The worker drops it and hears the next ring."""
    fields: dict[str, bytes | str] = {"data": GOOD_CALL, field: b"\xff garbage"}
    plant(redis, "poison", **fields)
    make_notifier(redis_url).notify(ProbeDevice.CPU, PAYLOAD)

    assert listen_once(redis) == [PAYLOAD]


def test_commands_in_redis_do_not_reach_a_worker(redis: "Redis") -> None:
    """RQ takes shutdown and kill commands from a channel; this worker listens to none."""
    reached: list[int] = []

    def idle() -> None:
        reached.append(
            cast("int", redis.publish("rq:pubsub:w", json.dumps({"command": "shutdown"})))
        )
        raise StopRequested

    Listener(redis, ProbeDevice.CPU, name="w", run_job=lambda _: None, idle=idle, wait_s=1).work(
        logging_level=None
    )

    assert reached == [0]


def test_rq_alone_would_have_run_it(redis: "Redis", tmp_path: Path) -> None:
    """The same poison does run in RQ's own job class, so the tests above test something."""
    trap = tmp_path / "trap"
    plant(redis, "poison", data=json.dumps(["os.mkdir", None, [str(trap)], {}]))

    guarded = GuardedJob.fetch("poison", connection=redis, serializer=JSONSerializer)
    with pytest.raises(DeserializationError):
        guarded.perform()
    with pytest.raises(ProtocolError):
        read_notification(guarded)
    before = trap.exists()
    Job.fetch("poison", connection=redis, serializer=JSONSerializer).perform()

    assert not before
    assert trap.exists()
