"""One configuration rendered for every scheduler and its framework."""

from dataclasses import replace

from service.estimator.values.workload import ServeWorkload
from service.formats.renderings.job import Job, Launch, UnrenderableError
from service.formats.renderings.kubernetes import render_kubernetes_objects
from service.formats.renderings.schedulers import (
    list_slice_notes,
    render_ray_request,
    render_skypilot_task,
    render_slurm_script,
)
from service.formats.renderings.serving import launch_serving
from service.formats.renderings.text import render_shell_line
from service.formats.renderings.training import launch_training


def render(job: Job) -> dict[str, object]:
    """Return the contract's ``requests`` of a candidate.

    They are objects for Kubernetes, Ray and SkyPilot, Slurm's script, and flags. Kubernetes' are
    None where no image is known, which a note says.
    """
    launch = make_launch(job)
    try:
        kubernetes = render_kubernetes_objects(job, launch)
    except UnrenderableError as error:
        kubernetes, launch = None, replace(launch, notes=(*launch.notes, f"Kubernetes: {error}"))
    return {
        "kubernetes": kubernetes,
        "slurm": render_slurm_script(job, launch),
        "ray": render_ray_request(job, launch),
        "skypilot": render_skypilot_task(job, launch),
        "launch": _as_answer(job, launch),
    }


def make_launch(job: Job) -> Launch:
    """Return the launch of one replica of a job."""
    workload = job.workload
    return (
        launch_serving(job, workload)
        if isinstance(workload, ServeWorkload)
        else launch_training(job, workload)
    )


def _as_answer(job: Job, launch: Launch) -> dict[str, object]:
    return {
        "command": render_shell_line(launch.command),
        "files": dict(launch.files),
        "environment": dict(launch.environment),
        "objects": dict(launch.objects),
        "notes": [*launch.notes, *list_slice_notes(job)],
        "nodes": job.num_nodes,
        "gpus_per_node": job.gpus_per_node,
        "replicas": job.replicas,
    }
