"""Kill -9 of every part in the middle of a job: the job ends right, and once."""

import os
import signal
from contextlib import closing
from pathlib import Path
from typing import cast

import psutil
from redis import Redis

from service.embedded.redis import run_redis
from service.jobs.notify import BackgroundNotifier, Notifier, connect_to_notify
from service.jobs.states import Status
from service.usecases.jobs import measurements, samples, workers
from service.usecases.jobs.workers import WorkerState
from service.usecases.stored import PageRequest
from tests.processes import has_ended
from tests.system import IN_TIME_S, Script, System, find_job_process, has_succeeded_once
from tests.waiting import eventually


def held_up(system: System) -> tuple[Script, Path, Path]:
    """Return a script that stops in its first attempt, the note with the probe's id, and the gate
    that lets it go on.
    """
    note, gate = system.dir / "note", system.dir / "gate"
    return (
        [
            {"say": {"phase": "half", "fraction": 0.5}},
            {"touch": str(note)},
            {"wait_for": str(gate)},
        ],
        note,
        gate,
    )


def test_a_job_runs_without_redis_and_without_being_rung_for(system: System) -> None:
    """Polling Postgres is enough, and what the probe said is there to read."""
    job_id = system.submit([{"say": {"phase": "layers 1 of 2", "fraction": 0.5}}, {"sample": 123}])

    system.start_worker("--burst").wait(timeout=IN_TIME_S)

    assert has_succeeded_once(system, job_id, attempt=1)
    assert system.read(job_id).progress == 1.0
    assert [
        one.bytes for one in samples.list_page(system.sessions, job_id, PageRequest()).items
    ] == [123]


def test_kill_9_of_the_probe(system: System) -> None:
    """Its supervisor sees the death at once, and the second attempt succeeds."""
    script, note, gate = held_up(system)
    job_id = system.submit(script)
    system.start_worker()

    os.kill(system.wait_for_pid(note), signal.SIGKILL)
    gate.touch()
    system.wait_for_end(job_id)

    assert system.statuses(job_id) == [
        ("queued", 0),
        ("running", 1),
        ("queued", 1),
        ("running", 2),
        ("succeeded", 2),
    ]
    assert has_succeeded_once(system, job_id, attempt=2)


def test_kill_9_of_the_supervising_process(system: System) -> None:
    """The probe dies with it, the worker gives the job back, and nobody has to wait for the
    lease.
    """
    script, note, gate = held_up(system)
    job_id = system.submit(script)
    worker = system.start_worker()
    probe = system.wait_for_pid(note)

    os.kill(find_job_process(worker), signal.SIGKILL)
    eventually(lambda: has_ended(probe))
    gate.touch()
    system.wait_for_end(job_id)

    assert system.statuses(job_id) == [
        ("queued", 0),
        ("running", 1),
        ("queued", 1),
        ("running", 2),
        ("succeeded", 2),
    ]
    assert worker.poll() is None


def test_kill_9_of_the_worker(system: System) -> None:
    """The job's process and its probe die with it; when its lease is over, the loop gives the job
    to another worker.
    """
    script, note, gate = held_up(system)
    job_id = system.submit(script)
    worker = system.start_worker()
    probe, process = system.wait_for_pid(note), find_job_process(worker)

    worker.kill()
    worker.wait()
    eventually(lambda: has_ended(probe) and has_ended(process))
    gate.touch()
    system.keep_leases()
    system.start_reconcile()
    system.start_worker()
    system.wait_for_end(job_id)

    assert system.statuses(job_id) == [
        ("queued", 0),
        ("running", 1),
        ("queued", 1),
        ("running", 2),
        ("succeeded", 2),
    ]
    assert has_succeeded_once(system, job_id, attempt=2)


def test_a_worker_that_sleeps_past_its_lease_is_fenced(system: System) -> None:
    """A frozen attempt that wakes after its successor has begun writes nothing; there is one
    result, the successor's.
    """
    script, note, gate = held_up(system)
    job_id = system.submit(script)
    frozen = system.start_worker()
    probe, process = system.wait_for_pid(note), find_job_process(frozen)
    for pid in (frozen.pid, process, probe):
        os.kill(pid, signal.SIGSTOP)

    system.keep_leases()
    system.start_reconcile()
    system.start_worker()
    eventually(lambda: system.read(job_id).attempt == 2, within_s=IN_TIME_S)
    gate.touch()
    for pid in (probe, process, frozen.pid):
        os.kill(pid, signal.SIGCONT)
    system.wait_for_end(job_id)
    eventually(lambda: has_ended(process))

    assert has_succeeded_once(system, job_id, attempt=2)


def test_kill_9_of_redis_in_the_middle_of_a_job(system: System) -> None:
    """The job goes on, and jobs that come while there is no Redis run too, as do those after its
    return.
    """
    with run_redis(system.dir / "redis") as url:
        notifier = Notifier(connect_to_notify(url), job_timeout_s=60)
        script, note, gate = held_up(system)
        worker = system.start_worker(redis_url=url)
        job_id = system.submit(script, ring=notifier.notify)
        system.wait_for_pid(note)

        with closing(Redis.from_url(url)) as client:
            info = cast("dict[str, int]", client.info("server"))
        psutil.Process(info["process_id"]).kill()
        meanwhile = system.submit([], ring=notifier.notify)
        gate.touch()

        assert system.wait_for_end(job_id).status is Status.SUCCEEDED
        assert system.wait_for_end(meanwhile).status is Status.SUCCEEDED
        assert has_succeeded_once(system, job_id, attempt=1)
        assert notifier.failures == 1
        assert worker.poll() is None


def test_a_ring_is_heard_at_once(system: System) -> None:
    """With Redis a job does not wait for the next poll."""
    with run_redis(system.dir / "redis") as url:
        system.environment["HEADROOM_POLL_INTERVAL_S"] = "3600"
        notifier = BackgroundNotifier(Notifier(connect_to_notify(url), job_timeout_s=60))
        system.start_worker(redis_url=url)
        with closing(Redis.from_url(url)) as client:
            # The worker's connection is called after it: from then on it listens.
            eventually(lambda: client.smembers("rq:workers"), within_s=IN_TIME_S)

            job_id = system.submit([], ring=notifier.notify)
            job = system.wait_for_end(job_id)
        notifier.close()

    assert job.status is Status.SUCCEEDED


def test_a_cancelled_job_ends_within_a_heartbeat(system: System) -> None:
    """The probe is killed, the job is cancelled, the worker takes the next."""
    script, note, _gate = held_up(system)
    job_id = system.submit(script)
    system.start_worker()
    probe = system.wait_for_pid(note)

    measurements.cancel(system.sessions, job_id)
    job = system.wait_for_end(job_id)
    following = system.wait_for_end(system.submit([]))

    assert job.status is Status.CANCELLED
    assert has_ended(probe)
    assert following.status is Status.SUCCEEDED


def test_a_probe_that_always_dies_fails_the_job_in_the_end(system: System) -> None:
    """Three attempts, then the reason with the probe's last words."""
    job_id = system.submit([{"stderr": "Killed for lack of memory"}, {"exit": 137}])

    system.start_worker("--burst").wait(timeout=IN_TIME_S)

    job = system.read(job_id)
    assert (job.status, job.attempt) == (Status.FAILED, 3)
    assert job.error is not None
    assert "status 137" in str(job.error["detail"])
    assert "Killed for lack of memory" in str(job.error["detail"])


def test_a_probe_that_refuses_fails_the_job_at_once(system: System) -> None:
    """Asking again would change nothing, so nobody does."""
    job_id = system.submit([{"fail": "model_type 'mamba' has no probe"}])

    system.start_worker("--burst").wait(timeout=IN_TIME_S)

    job = system.read(job_id)
    assert (job.status, job.attempt) == (Status.FAILED, 1)
    assert job.error == {
        "type": "probe-unsupported",
        "title": "The probe cannot run this",
        "detail": "model_type 'mamba' has no probe",
    }


def test_a_probe_is_killed_at_its_deadline(system: System) -> None:
    """What hangs ends, and the job says after how long."""
    script, note, _gate = held_up(system)
    deadlines = iter(2.0**power for power in range(-1, 7))
    # On a busy machine a deadline may be over before the probe has begun to hang.
    while not note.exists():
        system.environment["HEADROOM_PROBE_DEADLINE_S"] = f"{next(deadlines):g}"
        job_id = system.submit(script)
        system.start_worker("--burst").wait(timeout=IN_TIME_S)

        job = system.read(job_id)
        assert (job.status, job.attempt) == (Status.FAILED, 1)
        assert job.error is not None
        assert job.error["type"] == "deadline-exceeded"
    assert has_ended(system.wait_for_pid(note))


def test_sigterm_lets_the_job_end(system: System) -> None:
    """A worker that is asked to leave finishes what it runs, and takes nothing new."""
    script, note, gate = held_up(system)
    job_id = system.submit(script)
    worker = system.start_worker()
    system.wait_for_pid(note)

    worker.terminate()
    left = system.submit([])
    gate.touch()
    status = worker.wait(timeout=IN_TIME_S)

    assert status == 0
    assert has_succeeded_once(system, job_id, attempt=1)
    assert system.read(left).status is Status.QUEUED
    assert [one.state for one in workers.list_workers(system.sessions, gone_after_s=30)] == [
        WorkerState.STOPPED
    ]


def test_sigint_gives_the_job_back(system: System) -> None:
    """Ctrl-C does not wait: the job is queued again at once, for another worker."""
    script, note, _gate = held_up(system)
    job_id = system.submit(script)
    worker = system.start_worker()
    probe = system.wait_for_pid(note)

    worker.send_signal(signal.SIGINT)
    status = worker.wait(timeout=IN_TIME_S)

    assert status == 0
    assert has_ended(probe)
    assert system.statuses(job_id) == [("queued", 0), ("running", 1), ("queued", 1)]


def test_a_waiting_worker_leaves_at_once(system: System) -> None:
    """Nothing runs, so SIGTERM is enough."""
    worker = system.start_worker()
    eventually(lambda: workers.list_workers(system.sessions, gone_after_s=30), within_s=IN_TIME_S)

    worker.terminate()

    assert worker.wait(timeout=IN_TIME_S) == 0
