"""What workers run on now, by which calibrations are looked up: a release that changed addresses other ones."""

from service.calibration.environment import Environment, environment_of
from service.jobs.contract import ProbeDevice
from service.usecases.jobs.workers import SeenWorker, WorkerState, list_workers
from service.usecases.learning.evidence import gpu_name
from service.usecases.stored import Sessions


def running_environments(sessions: Sessions, *, gone_after_s: float) -> tuple[Environment, ...]:
    """Return the environments of the workers that are there, the one that was started last at the end."""
    workers = [
        worker
        for worker in list_workers(sessions, gone_after_s=gone_after_s)
        if worker.state in {WorkerState.IDLE, WorkerState.BUSY}
    ]
    ordered = sorted(workers, key=lambda worker: (worker.started_at, worker.name))
    return tuple(found for worker in ordered for found in environments_of(worker))


def environments_of(worker: SeenWorker) -> tuple[Environment, ...]:
    """Return the environment of each device of a worker; none where it has no torch."""
    found = []
    for device in worker.devices:
        on_gpu = device.get("device") == ProbeDevice.CUDA.value
        gpu = gpu_name(str(device.get("sku") or device["name"])) if on_gpu and device.get("name") else None
        environment = environment_of({**worker.versions, **device}, gpu=gpu)
        if environment is not None:
            found.append(environment)
    return tuple(dict.fromkeys(found))
