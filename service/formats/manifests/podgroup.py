"""Gangs of Kubernetes' own scheduler.

No pod of a job starts before all of them can: scheduling.k8s.io/v1beta1 PodGroup of Kubernetes
1.37, which pods name in their ``schedulingGroup``.
"""

from typing import Any

from service.formats.manifests.format import Document
from service.formats.renderings.job import Job, Launch, UnrenderableError
from service.formats.renderings.kubernetes import render_kubernetes_objects


def render_pod_group(job: Job, launch: Launch) -> Document:
    """Return a Job's objects, its pods in one gang.

    Raises UnrenderableError for one pod, which waits for no other, and where no image is known.
    """
    if job.num_nodes == 1:
        message = "podgroup is a gang of pods, and this is one on one node: format kubernetes"
        raise UnrenderableError(message)
    document: Any = render_kubernetes_objects(job, launch)
    *objects, workload = document["items"]
    workload["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": job.name}
    gang = {"gang": {"minCount": workload["spec"]["parallelism"]}}
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": job.name},
        "spec": {"schedulingPolicy": gang},
    }
    return {**document, "items": [group, *objects, workload]}
