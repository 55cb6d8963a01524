"""Parts of rendered Kubernetes objects that formats change.

The object that runs pods is the last of a List.
"""

from typing import Any

from service.estimator.values.workload import ServeWorkload
from service.formats.renderings.job import CHECKPOINT, DRAFT, Job, Launch, UnrenderableError
from service.formats.renderings.kubernetes import render_kubernetes_objects
from service.formats.renderings.pods import get_gpu_resource
from service.formats.renderings.weights import get_checkpoint


def render_workload(job: Job, launch: Launch) -> tuple[list[Any], Any]:
    """Return a job's other objects, and the one that runs pods.

    Raises UnrenderableError where no image is known.
    """
    document: Any = render_kubernetes_objects(job, launch)
    *objects, workload = document["items"]
    return objects, workload


def name_checkpoint(job: Job, launch: Launch) -> str:
    """Return the checkpoint of a server that an object names.

    Raises UnrenderableError where only a shell would learn it, or its draft's.
    """
    workload = job.workload
    unknown = any(name in word for word in launch.command for name in (CHECKPOINT, DRAFT))
    if unknown or not isinstance(workload, ServeWorkload):
        message = (
            "the object names its checkpoint on the Hugging Face hub, and none of these weights is "
            "known: format kubernetes takes yours"
        )
        raise UnrenderableError(message)
    return get_checkpoint(job, workload)


def list_pod_templates(workload: Any) -> list[Any]:  # noqa: ANN401 - any kind of object
    """Return the templates of the pods of a Job, Deployment or LeaderWorkerSet."""
    spec = workload["spec"]
    group = spec.get("leaderWorkerTemplate")
    if group is None:
        return [spec["template"]]
    return [group[role] for role in ("leaderTemplate", "workerTemplate") if role in group]


def drop_gpus(pod: Any, job: Job) -> None:  # noqa: ANN401 - a pod's spec
    """Take the device plugin's GPUs from a pod's container."""
    resources, gpus = pod["containers"][0]["resources"], get_gpu_resource(job)
    del resources["requests"][gpus], resources["limits"][gpus]
    if not resources["limits"]:
        del resources["limits"]


def drop_gpu_labels(pod: Any, job: Job) -> None:  # noqa: ANN401 - a pod's spec
    """Let a pod run on nodes with any label.

    The nodes that a plan was placed on stay.
    """
    pod.pop("nodeSelector", None)
    if not job.nodes:
        pod.pop("affinity", None)


def as_list(items: list[Any]) -> dict[str, object]:
    """Return objects as a List for ``kubectl apply``."""
    return {"apiVersion": "v1", "kind": "List", "items": items}


def label(item: Any, labels: dict[str, str]) -> None:  # noqa: ANN401 - an object or a template
    """Add labels to an object or a template."""
    metadata = item["metadata"]
    metadata["labels"] = metadata.get("labels", {}) | labels


def annotate(item: Any, annotations: dict[str, str]) -> None:  # noqa: ANN401 - as above
    """Add annotations to an object or a template."""
    metadata = item["metadata"]
    metadata["annotations"] = metadata.get("annotations", {}) | annotations
