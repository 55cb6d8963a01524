"""Kueue: the objects of Kubernetes in a queue.

A Job is suspended until it is admitted.

kubernetes-sigs/kueue, ``site/content/en/docs/tasks/run`` (jobs, deployment, leaderworkerset).
"""

from typing import Any

from service.formats.manifests.format import Document
from service.formats.renderings.job import Job, Launch
from service.formats.renderings.kubernetes import render_kubernetes_objects

QUEUE = "default"
"""The LocalQueue that Kueue takes where none is named (``LocalQueueDefaulting``)."""
_LABEL = "kueue.x-k8s.io/queue-name"


def render_kueue_objects(job: Job, launch: Launch) -> Document:
    """Return a job's objects.

    The one that runs pods waits in a queue.

    Raises UnrenderableError where no image is known.
    """
    document: Any = render_kubernetes_objects(job, launch)
    workload = document["items"][-1]
    workload["metadata"]["labels"] = {_LABEL: QUEUE}
    if workload["kind"] == "Job":
        # Kueue's webhook would suspend it too; without the webhook it must not start.
        workload["spec"] = {"suspend": True, **workload["spec"]}
    result: Document = document
    return result
