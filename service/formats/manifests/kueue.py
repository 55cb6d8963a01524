"""Kueue: the objects of Kubernetes in a queue.

A Job is suspended until it is admitted.

kubernetes-sigs/kueue, ``site/content/en/docs/tasks/run`` (jobs, deployment, leaderworkerset); its
topology-aware scheduling, ``keps/2724-topology-aware-scheduling``, and its gates of admission,
``keps/6915-scheduling-gated-by-annotation``.
"""

from typing import Any

from service.estimator.values.units import ceil_div
from service.formats.manifests.format import Document
from service.formats.manifests.workloads import annotate, label, list_pod_templates
from service.formats.renderings.job import Job, Launch, UnrenderableError
from service.formats.renderings.kubernetes import render_kubernetes_objects

QUEUE = "default"
"""The LocalQueue that Kueue takes where none is named (``LocalQueueDefaulting``)."""
_PREFIX = "kueue.x-k8s.io"
QUEUE_LABEL = f"{_PREFIX}/queue-name"
GATED_BY, GATE = f"{_PREFIX}/admission-gated-by", "headroom.dev/fit"
"""The annotation that holds a Job, and whose gate it is."""
_REQUIRED, _PREFERRED = (
    f"{_PREFIX}/podset-required-topology",
    f"{_PREFIX}/podset-preferred-topology",
)
_SLICE, _SLICE_SIZE = f"{_PREFIX}/podset-slice-required-topology", f"{_PREFIX}/podset-slice-size"
_GROUP = f"{_PREFIX}/podset-group-name"
_SUSPENDED = frozenset({"Job", "JobSet", "TrainJob", "RayJob"})
"""Kinds that start when ``suspend`` is taken away."""


def render_kueue_objects(job: Job, launch: Launch) -> Document:
    """Return a job's objects.

    The one that runs pods waits in a queue.

    Raises UnrenderableError where no image is known, and for a gate or a topology that would hold
    nothing.
    """
    document: Any = render_kubernetes_objects(job, launch)
    workload = document["items"][-1]
    _queue(job, workload)
    if job.options.topology is not None:
        for template in list_pod_templates(workload):
            annotate(template, _render_topology(job, job.options.topology, workload["kind"]))
    result: Document = document
    return result


def place_in_queue(job: Job, workload: Any) -> None:  # noqa: ANN401 - any kind of object
    """Let Kueue admit what runs pods.

    That is so where a queue or a gate is asked for.

    Raises UnrenderableError for a gate of what has none.
    """
    if job.options.queue is not None or job.options.gate:
        _queue(job, workload)


def _queue(job: Job, workload: Any) -> None:  # noqa: ANN401 - as above
    label(workload, {QUEUE_LABEL: job.options.queue or QUEUE})
    if job.options.gate:
        _add_gate(workload)
    if workload["kind"] in _SUSPENDED:
        # Kueue's webhook would suspend it too; without the webhook it must not start.
        workload["spec"] = {"suspend": True, **workload["spec"]}


def _add_gate(workload: Any) -> None:  # noqa: ANN401 - any kind of object
    if workload["kind"] not in _SUSPENDED:
        message = (
            f"a gate holds a job that ends, and this is a {workload['kind']}: leave the gate away"
        )
        raise UnrenderableError(message)
    annotate(workload, {GATED_BY: GATE})


def _render_topology(job: Job, level: str, kind: str) -> dict[str, str]:
    """Return which pods are within one domain of a level of nodes.

    Those are the nodes over which tensor parallelism goes, in slices of the job; else all of it as
    far as there is room. A server's replica is one group of pods.
    """
    pods = job.num_nodes * job.replicas
    if job.num_nodes == 1:
        message = f"each replica of this is on one node: no {level} holds anything together"
        raise UnrenderableError(message)
    if kind == "LeaderWorkerSet":
        return {_GROUP: job.name, _REQUIRED: level}
    island = ceil_div(job.layout.tensor_parallel, job.gpus_per_node)
    if island == 1:
        return {_PREFERRED: level}
    if island < pods and pods % island == 0:
        return {_SLICE: level, _SLICE_SIZE: str(island)}
    return {_REQUIRED: level}
