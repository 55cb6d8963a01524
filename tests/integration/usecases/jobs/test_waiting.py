"""What a queued job says it waits for, against a real database."""

from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from service.jobs.contract import ProbeDevice
from service.jobs.notify import skip_notification
from service.jobs.states import Status
from service.runtime.settings import Settings
from service.usecases.jobs import measurements, workers
from service.usecases.jobs.waiting import choose_probe_device, update_waiting_phases
from service.usecases.jobs.workers import WorkerInfo
from tests.job_builders import a_request

Sessions = sessionmaker[Session]
GONE_AFTER_S = 30.0
NONE_ALIVE = (
    "waits for a worker on device cpu; none is alive: start one with `headroom worker --device cpu`"
)


def submit(
    sessions: Sessions, *, device: ProbeDevice = ProbeDevice.CPU, gpu: str | None = None
) -> UUID:
    """Return the id of a queued job."""
    return measurements.submit(
        sessions,
        a_request(device=device, gpu=gpu),
        key="k",
        settings=Settings(),
        notify=skip_notification,
    ).id


def come(sessions: Sessions, *, device: str = "cpu", gpu: str | None = None) -> None:
    """Let a worker begin."""
    devices = [{"device": device, "sku": gpu}]
    workers.register(
        sessions, WorkerInfo(name=device, host="h", pid=7, devices=devices, versions={})
    )


def tell(sessions: Sessions) -> None:
    """Do what the reconcile loop does."""
    update_waiting_phases(sessions, gone_after_s=GONE_AFTER_S)


def told(sessions: Sessions, job_id: UUID) -> list[tuple[str, object]]:
    """Return the kind of each event, and what it says beyond the status."""
    events = measurements.list_events_after(sessions, job_id, seq=0).events
    return [(one.kind, one.data.get("phase", one.data.get("reason"))) for one in events]


def test_without_a_worker_a_job_says_so_from_the_start(sessions: Sessions) -> None:
    """Whoever asks or watches learns why nothing happens; a worker of another device changes
    nothing.
    """
    come(sessions, device="cuda")

    job_id = submit(sessions)
    tell(sessions)

    job = measurements.read(sessions, job_id)
    assert (job.status, job.phase) == (Status.QUEUED, NONE_ALIVE)
    assert told(sessions, job_id) == [("status", NONE_ALIVE)]


def test_with_a_worker_a_job_just_waits_for_its_turn(sessions: Sessions) -> None:
    """The first event is that it is queued, and there is nothing to add."""
    come(sessions)

    job_id = submit(sessions)
    tell(sessions)

    assert measurements.read(sessions, job_id).phase == "queued"
    assert told(sessions, job_id) == [("status", None)]


def test_workers_that_come_and_go_are_told_once_each(sessions: Sessions) -> None:
    """The phase follows the workers: come, killed, back, stopped; every change is one event."""
    job_id = submit(sessions)

    for change in (come, kill, come, stop):
        change(sessions)
        tell(sessions)
        tell(sessions)

    phases = [phase for _, phase in told(sessions, job_id)]
    assert phases == [NONE_ALIVE, "queued", NONE_ALIVE, "queued", NONE_ALIVE]


def test_a_job_for_a_gpu_waits_for_a_worker_that_has_it(sessions: Sessions) -> None:
    """A worker of another GPU runs what is for any; what is for an H200 says what to start."""
    come(sessions, device="cuda", gpu="H100-SXM5-80GB")

    wanted = submit(sessions, device=ProbeDevice.CUDA, gpu="H200-SXM5-141GB")
    alike = submit(sessions, device=ProbeDevice.CUDA, gpu="H100-SXM5-80GB")
    any_gpu = submit(sessions, device=ProbeDevice.CUDA)
    tell(sessions)

    assert measurements.read(sessions, wanted).phase == (
        "waits for a worker on device cuda with H200-SXM5-141GB; none is alive: start one with "
        "`headroom worker --gpus all` on a machine with the GPU H200-SXM5-141GB"
    )
    assert {measurements.read(sessions, job_id).phase for job_id in (alike, any_gpu)} == {"queued"}


def test_a_read_tells_of_the_workers_of_its_moment(sessions: Sessions) -> None:
    """Whoever asks after a worker came need not wait for the reconcile loop."""
    job_id = submit(sessions)
    come(sessions)

    assert measurements.read(sessions, job_id, gone_after_s=GONE_AFTER_S).phase == "queued"
    assert measurements.read(sessions, job_id).phase == NONE_ALIVE


def test_a_measurement_takes_the_gpu_where_a_worker_has_it(sessions: Sessions) -> None:
    """The processor without any, and where the GPU in question is not the worker's."""
    before = choose_probe_device(sessions, None, gone_after_s=GONE_AFTER_S)
    come(sessions, device="cuda", gpu="H100-SXM5-80GB")
    chosen = [
        choose_probe_device(sessions, gpu, gone_after_s=GONE_AFTER_S)
        for gpu in (None, "H100-SXM5-80GB", "H200-SXM5-141GB")
    ]

    assert (before, *chosen) == (
        ProbeDevice.CPU,
        ProbeDevice.CUDA,
        ProbeDevice.CUDA,
        ProbeDevice.CPU,
    )


def kill(sessions: Sessions) -> None:
    """Let the worker's last heartbeat be old."""
    with sessions.begin() as session:
        old = text("UPDATE workers SET last_heartbeat = now() - make_interval(secs => :s)")
        session.execute(old, {"s": GONE_AFTER_S + 1})


def stop(sessions: Sessions) -> None:
    """Let the worker leave."""
    workers.mark_stopped(sessions, "cpu")
