"""Environments of running workers, by which calibrations are looked up.

After an upgrade of a release, other calibrations are addressed.
"""

from service.calibration.environment import Environment, parse_environment
from service.jobs.contract import ProbeDevice
from service.usecases.jobs.workers import WorkerState, WorkerSummary, list_workers
from service.usecases.learning.analytic_answers import resolve_gpu_name
from service.usecases.stored import Sessions


def list_running_environments(
    sessions: Sessions, *, gone_after_s: float
) -> tuple[Environment, ...]:
    """Return the environments of live workers.

    The worker that was started last comes at the end.
    """
    workers = [
        worker
        for worker in list_workers(sessions, gone_after_s=gone_after_s)
        if worker.state in {WorkerState.IDLE, WorkerState.BUSY}
    ]
    ordered = sorted(workers, key=lambda worker: (worker.started_at, worker.name))
    return tuple(environment for worker in ordered for environment in list_environments(worker))


def list_environments(worker: WorkerSummary) -> tuple[Environment, ...]:
    """Return the environment of each device of a worker.

    None of them where the worker has no torch.
    """
    environments = []
    for device in worker.devices:
        on_gpu = device.get("device") == ProbeDevice.CUDA.value
        gpu = (
            resolve_gpu_name(str(device.get("sku") or device["name"]))
            if on_gpu and device.get("name")
            else None
        )
        environment = parse_environment({**worker.versions, **device}, gpu=gpu)
        if environment is not None:
            environments.append(environment)
    return tuple(dict.fromkeys(environments))
