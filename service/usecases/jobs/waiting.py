"""Phases of queued measurements: waiting for a turn or a worker."""

from dataclasses import replace

from sqlalchemy.orm import Session

from service.db.queries import queued_jobs
from service.db.queries import workers as worker_queries
from service.db.queries.attempts import Event, add_events
from service.db.records.measurements import StoredMeasurement
from service.db.session import transaction
from service.jobs.contract import ProbeDevice
from service.jobs.states import Status
from service.usecases.stored import Sessions

BATCH = 1000
"""Rows of one transaction; the next pass takes the rest."""
_COMMANDS = {
    ProbeDevice.CPU.value: "headroom worker --device cpu",
    ProbeDevice.TRACE.value: "headroom worker --device trace",
    ProbeDevice.CUDA.value: "headroom worker --gpus all",
}


def choose_probe_device(sessions: Sessions, gpu: str | None, *, gone_after_s: float) -> ProbeDevice:
    """Return the device of a measurement that names none.

    It is the GPU where a live worker has the one in question, or any where none is named, else the
    processor.
    """
    with transaction(sessions) as session:
        on_gpu = worker_queries.has_live_worker(
            session, ProbeDevice.CUDA.value, gpu=gpu, gone_after_s=gone_after_s
        )
    return ProbeDevice.CUDA if on_gpu else ProbeDevice.CPU


def describe_waiting_phase(
    session: Session, device: str, *, gpu: str | None = None, gone_after_s: float
) -> str:
    """Return the phase of a queued job.

    It says what to start when no worker that may run it was alive in ``gone_after_s`` seconds.
    """
    # Bytes that a processor or fake tensors tell are the same whatever GPU they are asked for.
    needed = gpu if device == ProbeDevice.CUDA.value else None
    if worker_queries.has_live_worker(session, device, gpu=needed, gone_after_s=gone_after_s):
        return Status.QUEUED.value
    where = "" if needed is None else f" with {needed}"
    machine = _describe_machine(device, needed)
    return (
        f"waits for a worker on device {device}{where}; none is alive: start one with "
        f"`{_COMMANDS[device]}`{machine}"
    )


def update_phase(
    session: Session, stored: StoredMeasurement, *, gone_after_s: float
) -> StoredMeasurement:
    """Return a measurement, a queued one with its present phase."""
    if stored.status is not Status.QUEUED:
        return stored
    phase = describe_waiting_phase(
        session, stored.device, gpu=stored.gpu, gone_after_s=gone_after_s
    )
    return replace(stored, phase=phase)


def get_reason(phase: str) -> str | None:
    """Return the phase where it differs from the status."""
    return None if phase == Status.QUEUED.value else phase


def update_waiting_phases(sessions: Sessions, *, gone_after_s: float) -> None:
    """Update the phase of queued jobs and add progress events.

    Their status stays what it is.
    """
    with transaction(sessions) as session:
        for device, gpu in queued_jobs.list_queued_devices(session):
            phase = describe_waiting_phase(session, device, gpu=gpu, gone_after_s=gone_after_s)
            for row in queued_jobs.lock_queued(
                session, device=device, gpu=gpu, other_than=phase, limit=BATCH
            ):
                row.phase = phase
                session.flush()
                add_events(session, row.id, [_make_queued_event(row.attempt, phase)])


def _describe_machine(device: str, gpu: str | None) -> str:
    if device != ProbeDevice.CUDA.value:
        return ""
    return f" on a machine with {'an NVIDIA GPU' if gpu is None else f'the GPU {gpu}'}"


def _make_queued_event(attempt: int, phase: str) -> Event:
    return Event(
        "progress",
        {"progress": 0.0, "status": Status.QUEUED.value, "attempt": attempt, "phase": phase},
    )
