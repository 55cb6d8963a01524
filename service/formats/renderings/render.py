"""One configuration, said to every scheduler and to the framework that runs it."""

from service.estimator.values.workload import ServeWorkload
from service.formats.renderings.job import Job, Launch
from service.formats.renderings.kubernetes import kubernetes_objects
from service.formats.renderings.schedulers import ray_request, skypilot_task, slice_notes, slurm_script
from service.formats.renderings.serving import launch_serving
from service.formats.renderings.text import shell_line
from service.formats.renderings.training import launch_training


def render(job: Job) -> dict[str, object]:
    """Return the contract's ``requests`` of a candidate: objects for Kubernetes, Ray and SkyPilot, Slurm's script, flags."""
    launch = launch_of(job)
    return {
        "kubernetes": kubernetes_objects(job, launch),
        "slurm": slurm_script(job, launch),
        "ray": ray_request(job),
        "skypilot": skypilot_task(job, launch),
        "launch": _as_answer(job, launch),
    }


def launch_of(job: Job) -> Launch:
    """Return how one replica of a job is started."""
    workload = job.workload
    return launch_serving(job, workload) if isinstance(workload, ServeWorkload) else launch_training(job, workload)


def _as_answer(job: Job, launch: Launch) -> dict[str, object]:
    return {
        "command": shell_line(launch.command),
        "files": dict(launch.files),
        "environment": dict(launch.environment),
        "objects": dict(launch.objects),
        "notes": [*launch.notes, *slice_notes(job)],
        "nodes": job.num_nodes,
        "gpus_per_node": job.gpus_per_node,
        "replicas": job.replicas,
    }
