"""Groups of pods that an object of Kubernetes runs.

Each is of one template.

Shapes: Kubernetes 1.37 (Pod, Job, Deployment), Kubeflow Trainer 2.3 (TrainJob), JobSet 0.12, LWS
0.10, KubeRay 1.7 (RayJob).
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from service.formats.gpu_requests.pod_products import AMD, GPU, MIG, SHARED
from service.formats.inventories.documents import (
    Json,
    get_count,
    get_object,
    get_objects,
    get_text,
    get_texts,
)
from service.formats.launches.values.launch import LaunchFile
from service.formats.submissions.submission import SubmissionError

RESOURCES = (GPU, AMD, SHARED)
SECTIONS = ("limits", "requests")
_MAX_PER_NODE = 65_536
"""More than any node has; a larger number is a mistake that Kubernetes refuses."""
_TEMPLATE = ("spec", "template")
_Place = tuple[tuple[str, ...], int]
"""Path of a template, and the pods that are made from it for one job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """Pods of one template.

    ``container`` is the one that asks for GPUs, and ``resources`` the JSON pointer of its
    resources. ``count`` pods belong to one job; ``command`` or ``files`` are what the pods launch.
    """

    container: Json
    resources: str
    count: int
    spec: Json = field(default_factory=dict)
    annotations: Json = field(default_factory=dict)
    command: tuple[str, ...] = ()
    files: tuple[LaunchFile, ...] = ()

    @property
    def requested(self) -> tuple[str, int] | None:
        """Resource and number of a pod's GPUs, if any."""
        return _find_request(self.container)

    @property
    def sections(self) -> tuple[str, ...]:
        """Sections of the resources that name the GPUs."""
        if self.requested is None:
            return ()
        resources = get_object(self.container, "resources")
        return tuple(name for name in SECTIONS if self.requested[0] in get_object(resources, name))

    @property
    def environment(self) -> dict[str, str]:
        """Variables of the container whose values are written there."""
        return {
            name: value
            for pair in get_objects(self.container, "env")
            if isinstance(name := pair.get("name"), str)
            and isinstance(value := pair.get("value"), str)
        }


def list_groups(kind: str, document: Json) -> list[PodGroup]:
    """Return the groups of an object of one of KINDS.

    Raises SubmissionError for one that is not shaped as its kind is.
    """
    spec = get_object(document, "spec")
    if kind == "TrainJob":
        return [_read_trainer(get_object(spec, "trainer"))]
    groups = [_read_group(document, *place) for place in _FINDERS[kind](spec)]
    if not groups:
        message = f"the {kind} has no template of a pod"
        raise SubmissionError(message, field="object")
    return groups


def _find_pod(_spec: Json) -> Iterator[_Place]:
    yield (), 1


def _find_server(_spec: Json) -> Iterator[_Place]:
    """Yield the template of replicas, each by itself."""
    yield _TEMPLATE, 1


def _find_job(spec: Json) -> Iterator[_Place]:
    yield _TEMPLATE, _count_parallel(spec, "NonIndexed")


def _find_leader_and_workers(spec: Json) -> Iterator[_Place]:
    """Yield the leader of a group and its workers.

    Without a template of its own, the leader is made from that of the workers.
    """
    template = get_object(spec, "leaderWorkerTemplate")
    size = get_count(template, "size") or 1
    path = ("spec", "leaderWorkerTemplate")
    has_leader = bool(get_object(template, "leaderTemplate"))
    if has_leader:
        yield (*path, "leaderTemplate"), 1
    if size > has_leader:
        yield (*path, "workerTemplate"), size - has_leader


def _find_replicated_jobs(spec: Json) -> Iterator[_Place]:
    """Yield the jobs of a set.

    Its webhook makes those Indexed that do not say.
    """
    for index, job in enumerate(get_objects(spec, "replicatedJobs")):
        parallel = _count_parallel(get_object(get_object(job, "template"), "spec"), "Indexed")
        path = ("spec", "replicatedJobs", str(index), "template", *_TEMPLATE)
        yield path, _get_count_or_one(job, "replicas") * parallel


def _find_ray_groups(spec: Json) -> Iterator[_Place]:
    """Yield the workers of a Ray cluster, then its head."""
    cluster = get_object(spec, "rayClusterSpec")
    path = ("spec", "rayClusterSpec")
    for index, group in enumerate(get_objects(cluster, "workerGroupSpecs")):
        hosts = _get_count_or_one(group, "numOfHosts")
        count = _get_count_or_one(group, "replicas") * hosts
        yield (*path, "workerGroupSpecs", str(index), "template"), count
    if get_object(cluster, "headGroupSpec"):
        yield (*path, "headGroupSpec", "template"), 1


_FINDERS: Mapping[str, Callable[[Json], Iterator[_Place]]] = {
    "Pod": _find_pod,
    "Job": _find_job,
    "Deployment": _find_server,
    "StatefulSet": _find_server,
    "ReplicaSet": _find_server,
    "LeaderWorkerSet": _find_leader_and_workers,
    "JobSet": _find_replicated_jobs,
    "RayJob": _find_ray_groups,
}
KINDS = (*_FINDERS, "TrainJob")
"""Kinds whose groups are found."""


def _count_parallel(spec: Json, default: str) -> int:
    """Return the pods of a Job that train together.

    Those without an index cannot tell who of them is first: each is on its own.
    """
    mode = get_text(spec, "completionMode") or default
    return _get_count_or_one(spec, "parallelism") if mode == "Indexed" else 1


def _get_count_or_one(part: Json, name: str) -> int:
    count = get_count(part, name)
    return 1 if count is None else count


def _read_group(document: Json, path: tuple[str, ...], count: int) -> PodGroup:
    template = _follow(document, path)
    metadata, spec = get_object(template, "metadata"), get_object(template, "spec")
    index, container = _choose_container(spec)
    # The importers of launches read a Pod's containers, wherever the object had its template.
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return PodGroup(
        container=container,
        resources="/" + "/".join((*path, "spec", "containers", str(index), "resources")),
        count=count,
        spec=spec,
        annotations=get_object(metadata, "annotations"),
        files=(LaunchFile(name="job.json", content=json.dumps(pod)),),
    )


def _read_trainer(trainer: Json) -> PodGroup:
    """Return the nodes of a TrainJob."""
    return PodGroup(
        container={**trainer, "resources": get_object(trainer, "resourcesPerNode")},
        resources="/spec/trainer/resourcesPerNode",
        count=_get_count_or_one(trainer, "numNodes"),
        command=(*get_texts(trainer, "command"), *get_texts(trainer, "args")),
    )


def _choose_container(spec: Json) -> tuple[int, Json]:
    """Return the first container that asks for GPUs, else the first."""
    containers = get_objects(spec, "containers")
    if not containers:
        message = "the object has no containers: it is no Pod, and has no template of one"
        raise SubmissionError(message, field="object")
    for index, container in enumerate(containers):
        if _find_request(container) is not None:
            return index, container
    return 0, containers[0]


def _find_request(container: Json) -> tuple[str, int] | None:
    """Return the resource and number of GPUs or MIG slices."""
    resources = get_object(container, "resources")
    for section in SECTIONS:
        values = get_object(resources, section)
        for name in (*RESOURCES, *(name for name in values if name.startswith(MIG))):
            count = get_count(values, name)
            if count is not None and 0 < count <= _MAX_PER_NODE:
                return name, count
    return None


def _follow(document: Json, path: Sequence[str]) -> Json:
    """Return the object at a path, whose numbers are places in lists."""
    value: object = document
    for name in path:
        if isinstance(value, list) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}
