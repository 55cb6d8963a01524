"""The notifier against a real Redis: rings that are heard, bounded, and lost without harm."""

import socket
from typing import cast

import pytest
from redis import Redis

from service.jobs.contract import JobPayload, ProbeDevice
from service.jobs.notify import MAX_UNANSWERED_NOTIFICATIONS, BackgroundNotifier, open_queue
from tests.integration.jobs.builders import JOB_ID, PAYLOAD, listen_once, make_notifier
from tests.waiting import eventually


def test_a_ring_is_heard_and_leaves_nothing_behind(redis_url: str, redis: "Redis") -> None:
    """The payload arrives, and Redis keeps no account of the job."""
    make_notifier(redis_url).notify(ProbeDevice.CPU, PAYLOAD)

    heard = listen_once(redis)

    assert heard == [PAYLOAD]
    assert list(redis.scan_iter("rq:job:*")) == []
    assert redis.llen(open_queue(redis, ProbeDevice.CPU).intermediate_queue_key) == 0


def test_the_same_attempt_can_be_rung_for_twice(redis_url: str, redis: "Redis") -> None:
    """RQ would refuse an id that it has seen; the loop that rings again must not be refused."""
    notifier = make_notifier(redis_url)

    notifier.notify(ProbeDevice.CPU, PAYLOAD)
    notifier.notify(ProbeDevice.CPU, PAYLOAD)

    assert notifier.failures == 0
    assert redis.llen(open_queue(redis, ProbeDevice.CPU).key) == 2


def test_rings_that_nobody_answers_do_not_fill_redis(
    redis_url: str, redis: "Redis", monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue keeps the newest, and what RQ stores of each expires by itself."""
    assert MAX_UNANSWERED_NOTIFICATIONS >= 100
    monkeypatch.setattr("service.jobs.notify.MAX_UNANSWERED_NOTIFICATIONS", 3)
    notifier = make_notifier(redis_url)

    for attempt in range(5):
        notifier.notify(ProbeDevice.CPU, JobPayload(job_id=JOB_ID, attempt=attempt))

    assert redis.llen(open_queue(redis, ProbeDevice.CPU).key) == 3
    assert all(cast("int", redis.ttl(key)) > 0 for key in redis.scan_iter("rq:job:*"))


def test_each_device_has_a_queue_of_its_own(redis_url: str, redis: "Redis") -> None:
    """A CPU worker does not hear what is for a GPU."""
    make_notifier(redis_url).notify(ProbeDevice.CUDA, PAYLOAD)

    assert redis.llen(open_queue(redis, ProbeDevice.CPU).key) == 0
    assert redis.llen(open_queue(redis, ProbeDevice.CUDA).key) == 1


def test_a_closed_port_costs_a_moment_and_is_counted() -> None:
    """Without Redis a ring fails fast, is counted, and raises nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    notifier = make_notifier(f"redis://127.0.0.1:{port}/0")

    notifier.notify(ProbeDevice.CPU, PAYLOAD)

    assert notifier.failures == 1


def test_a_black_hole_holds_up_nobody() -> None:
    """A Redis that accepts and never answers is given up, in the background: the caller is not
    kept.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        notifier = make_notifier(f"redis://127.0.0.1:{server.getsockname()[1]}/0")
        background = BackgroundNotifier(notifier)

        for _ in range(3):
            background.notify(ProbeDevice.CPU, PAYLOAD)
        at_once = background.failures
        eventually(lambda: background.failures == 3)
        background.close()

    assert at_once == 0


def test_a_background_notifier_rings_what_waits_before_it_closes(
    redis_url: str, redis: "Redis"
) -> None:
    """Nothing that was rung for is dropped at the end of a process."""
    background = BackgroundNotifier(make_notifier(redis_url))
    for attempt in range(10):
        background.notify(ProbeDevice.CPU, JobPayload(job_id=JOB_ID, attempt=attempt))
    background.close()

    assert redis.llen(open_queue(redis, ProbeDevice.CPU).key) == 10
    assert background.failures == 0
