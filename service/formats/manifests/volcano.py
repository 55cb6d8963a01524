"""Volcano: a Job whose pods start together, and servers in its queue.

``batch.volcano.sh/v1alpha1`` (volcano-sh/volcano, ``staging/src/volcano.sh/apis/pkg/apis/batch``).
Its plugins name the pods and number them: ``svc`` makes the Service, ``env`` sets
``VC_TASK_INDEX``. A job that needs less than half of a GPU has a share of one
(``docs/user-guide/how_to_use_volcano_vgpu.md``).
"""

from typing import Any

from service.formats.manifests.format import Document
from service.formats.manifests.shares import fit_into_share, get_share_mib, is_shareable
from service.formats.manifests.workloads import (
    annotate,
    as_list,
    drop_gpus,
    list_pod_templates,
    render_workload,
)
from service.formats.renderings.job import Job, Launch
from service.formats.renderings.pods import render_pod

QUEUE = "default"
_TASK = "worker"
_QUEUE, _MODE = "scheduling.volcano.sh/queue-name", "volcano.sh/vgpu-mode"
_NUMBER, _MEMORY = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory"


def render_volcano_objects(job: Job, launch: Launch) -> Document:
    """Return a Job of Volcano, or a server's objects in its queue.

    Raises UnrenderableError where no image is known.
    """
    launch = fit_into_share(job, launch) if is_shareable(job) else launch
    objects, workload = render_workload(job, launch)
    if not job.is_server:
        objects = [item for item in objects if item["kind"] != "Service"]
        workload = _render_job(job, launch, list_pod_templates(workload)[0])
    for template in _list_templates(workload):
        template["spec"]["schedulerName"] = "volcano"
        if job.is_server:
            annotate(template, {_QUEUE: job.options.queue or QUEUE})
        if is_shareable(job):
            _share(template, job)
    return as_list([*objects, workload])


def _render_job(job: Job, launch: Launch, template: dict[str, Any]) -> dict[str, Any]:
    pods = job.num_nodes * job.replicas
    variables = {
        "HEAD_ADDRESS": f"{job.name}-{_TASK}-0.{job.name}",
        "NODE_RANK": "${VC_TASK_INDEX}",
    }
    if job.num_nodes > 1:
        spec = {"restartPolicy": "Never", **render_pod(job, launch, variables)}
        template = {"metadata": template["metadata"], "spec": spec}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": job.name},
        "spec": {
            "schedulerName": "volcano",
            "queue": job.options.queue or QUEUE,
            "minAvailable": pods,
            # Close to each other where the cluster's topology is known, and anywhere else.
            **({"networkTopology": {"mode": "soft"}} if job.num_nodes > 1 else {}),
            "plugins": {"env": [], "svc": []},
            "policies": [
                {"event": "PodFailed", "action": "AbortJob"},
                {"event": "TaskCompleted", "action": "CompleteJob"},
            ],
            "tasks": [{"name": _TASK, "replicas": pods, "template": template}],
        },
    }


def _list_templates(workload: dict[str, Any]) -> list[Any]:
    tasks = workload["spec"].get("tasks")
    return list_pod_templates(workload) if tasks is None else [task["template"] for task in tasks]


def _share(template: dict[str, Any], job: Job) -> None:
    drop_gpus(template["spec"], job)
    resources = template["spec"]["containers"][0]["resources"]
    resources["limits"] = {_NUMBER: "1", _MEMORY: str(get_share_mib(job))}
    annotate(template, {_MODE: "hami-core"})
