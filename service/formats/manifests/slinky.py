"""Slinky's slurm-bridge: Slurm gives the nodes, Kubernetes runs the pods.

Annotations of the object that runs pods say what Slurm is asked for (SlinkyProject/slurm-bridge,
``docs/workload.md``, ``internal/wellknown/annotations.go``).
"""

from service.estimator.values.units import MIB, ceil_div
from service.formats.manifests.format import Document
from service.formats.manifests.workloads import (
    annotate,
    as_list,
    drop_gpu_labels,
    list_pod_templates,
    render_workload,
)
from service.formats.renderings.host_needs import compute_host_needs
from service.formats.renderings.job import Job, Launch, UnrenderableError
from service.formats.renderings.schedulers import format_slurm_gres

_PREFIX = "slurmjob.slinky.slurm.net/"


def render_slinky_objects(job: Job, launch: Launch) -> Document:
    """Return a job's objects for the scheduler of slurm-bridge.

    Raises UnrenderableError where no image is known, and for a Job on several nodes, each pod of
    which would be a job of Slurm.
    """
    if job.num_nodes > 1 and not job.is_server:
        message = (
            f"slinky makes each pod of a Job a job of Slurm, and the {job.num_nodes} nodes of this "
            "start together: format slurm"
        )
        raise UnrenderableError(message)
    objects, workload = render_workload(job, launch)
    needs = compute_host_needs(job)
    is_alone = job.gpus_per_node == job.layout.gpus_per_node and job.mig_profile is None
    annotations = {
        "job-name": job.name,
        "gres": format_slurm_gres(job),
        "cpu-per-task": str(needs.cpus),
        "mem-per-node": f"{ceil_div(needs.memory_bytes, MIB)}Mi",
        "min-nodes": str(job.num_nodes),
        "max-nodes": str(job.num_nodes),
        "exclusive": str(is_alone).lower(),
    }
    annotate(workload, {f"{_PREFIX}{name}": value for name, value in annotations.items()})
    for template in list_pod_templates(workload):
        template["spec"]["schedulerName"] = "slurm-bridge-scheduler"
        drop_gpu_labels(template["spec"], job)
    return as_list([*objects, workload])
