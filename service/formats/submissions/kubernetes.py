"""Objects of Kubernetes as submissions: what an admission webhook is shown.

Shapes: Kubernetes 1.37 (Pod, Job, Deployment), Kubeflow Trainer 2.3 (TrainJob), JobSet 0.12, LWS
0.10, KubeRay 1.7 (RayJob, whose head runs no work).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from service.formats.inventories.documents import (
    Json,
    get_count,
    get_object,
    get_objects,
    get_text,
    get_texts,
)
from service.formats.inventories.feature_discovery import (
    AMD,
    GPU,
    PRODUCT_LABELS,
    SHARED_SUFFIX,
)
from service.formats.launches.values.launch import LaunchFile
from service.formats.submissions.submission import (
    ANNOTATION,
    GpuRequest,
    Submission,
    SubmissionError,
    find_note,
)

RESOURCES = (GPU, AMD)
_MAX_PER_NODE = 65_536
"""More than any node has; a larger number is a mistake that Kubernetes refuses."""
TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "Pod": (),
    "Job": ("spec", "template"),
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "LeaderWorkerSet": ("spec", "leaderWorkerTemplate", "workerTemplate"),
    "JobSet": ("spec", "replicatedJobs", "0", "template", "spec", "template"),
    "RayJob": ("spec", "rayClusterSpec", "workerGroupSpecs", "0", "template"),
}
"""Where the template of the pods is, by kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodJob:
    """An object as a submission.

    ``resources`` is the JSON pointer of the resources that ask for its GPUs, and ``resource`` their
    name there; ``None`` where nothing asks for any.
    """

    submission: Submission
    resources: str | None = None
    resource: str | None = None
    sections: tuple[str, ...] = ()


def read_object(document: Json, *, user: str | None = None) -> PodJob | None:
    """Return an object that runs pods as a submission.

    ``None`` for kinds that run none, and for what another object made: that one was shown before.

    Raises SubmissionError for one that is not shaped as its kind is.
    """
    kind = document.get("kind")
    metadata = get_object(document, "metadata")
    if any(_is_controller(owner) for owner in get_objects(metadata, "ownerReferences")):
        return None
    if kind == "TrainJob":
        return _read_train_job(document, metadata, user)
    if not isinstance(kind, str) or kind not in TEMPLATES:
        return None
    path = TEMPLATES[kind]
    template = _follow(document, path)
    spec = get_object(template, "spec")
    index, container = _choose_container(spec)
    requested = _find_request(container)
    environment = _read_environment(container)
    num_nodes = _count_nodes(kind, document)
    annotations = {
        **get_object(get_object(template, "metadata"), "annotations"),
        **get_object(metadata, "annotations"),
    }
    gpus = None if requested is None else _make_request(requested[1], num_nodes, spec)
    return PodJob(
        submission=Submission(
            scheduler="kubernetes",
            name=get_text(metadata, "name") or get_text(metadata, "generateName") or None,
            user=user,
            queue=get_text(metadata, "namespace") or None,
            gpus=gpus,
            note=get_text(annotations, ANNOTATION) or find_note(environment),
            environment=environment,
            files=(_make_file(document),),
            # More of a node is a number; more nodes are pods that find each other otherwise.
            can_change=num_nodes == 1,
        ),
        resources=None
        if requested is None
        else "/" + "/".join((*path, "spec", "containers", str(index), "resources")),
        resource=None if requested is None else requested[0],
        sections=() if requested is None else _list_sections(container, requested[0]),
    )


def make_patch(job: PodJob, per_node: int) -> list[dict[str, object]]:
    """Return the JSON patch (RFC 6902) of the number of GPUs."""
    if job.resources is None or job.resource is None:
        message = "nothing of this object asks for GPUs, so that their number cannot be changed"
        raise SubmissionError(message, field="object")
    name = job.resource.replace("~", "~0").replace("/", "~1")
    return [
        {"op": "replace", "path": f"{job.resources}/{section}/{name}", "value": str(per_node)}
        for section in job.sections
    ]


def _read_train_job(document: Json, metadata: Json, user: str | None) -> PodJob:
    trainer = get_object(get_object(document, "spec"), "trainer")
    resources = {"resources": get_object(trainer, "resourcesPerNode")}
    requested = _find_request(resources)
    environment = _read_environment(trainer)
    num_nodes = get_count(trainer, "numNodes") or 1
    annotations = get_object(metadata, "annotations")
    return PodJob(
        submission=Submission(
            scheduler="kubernetes",
            name=get_text(metadata, "name") or get_text(metadata, "generateName") or None,
            user=user,
            queue=get_text(metadata, "namespace") or None,
            gpus=None
            if requested is None
            else GpuRequest(per_node=requested[1], num_nodes=num_nodes),
            note=get_text(annotations, ANNOTATION) or find_note(environment),
            command=(*get_texts(trainer, "command"), *get_texts(trainer, "args")),
            environment=environment,
            can_change=num_nodes == 1,
        ),
        resources=None if requested is None else "/spec/trainer/resourcesPerNode",
        resource=None if requested is None else requested[0],
        sections=() if requested is None else _list_sections(resources, requested[0]),
    )


def _make_file(document: Json) -> LaunchFile:
    """Return the object as a manifest that the importers of launches read.

    Each kind is one of a Pod there: what runs is in its containers.
    """
    return LaunchFile(name="job.json", content=json.dumps(document))


def _make_request(count: int, num_nodes: int, spec: Json) -> GpuRequest:
    selector = get_object(spec, "nodeSelector")
    selected = [text for label in PRODUCT_LABELS if (text := get_text(selector, label))]
    names = [clean_product(name) for name in selected or (name for _, name in list_products(spec))]
    return GpuRequest(per_node=count, num_nodes=num_nodes, names=tuple(names))


def list_products(spec: Json) -> tuple[tuple[str, str], ...]:
    """Return the GPU products that a pod's required node affinity names.

    Each is the label of a node, and its value.
    """
    return tuple(_iter_affine_products(spec))


def _iter_affine_products(spec: Json) -> Iterator[tuple[str, str]]:
    affinity = get_object(get_object(spec, "affinity"), "nodeAffinity")
    required = get_object(affinity, "requiredDuringSchedulingIgnoredDuringExecution")
    for term in get_objects(required, "nodeSelectorTerms"):
        for expression in get_objects(term, "matchExpressions"):
            label = get_text(expression, "key")
            if label in PRODUCT_LABELS and expression.get("operator") == "In":
                yield from ((label, value) for value in get_texts(expression, "values"))


def _count_nodes(kind: str, document: Json) -> int:
    """Return on how many nodes one job of this object runs."""
    spec = get_object(document, "spec")
    if kind == "Job":
        return get_count(spec, "parallelism") or 1
    if kind == "LeaderWorkerSet":
        return get_count(get_object(spec, "leaderWorkerTemplate"), "size") or 1
    if kind == "JobSet":
        return sum(map(_count_pods, get_objects(spec, "replicatedJobs")))
    if kind == "RayJob":
        groups = get_objects(get_object(spec, "rayClusterSpec"), "workerGroupSpecs")
        return sum(get_count(group, "replicas") or 1 for group in groups)
    return 1


def _count_pods(job: Json) -> int:
    """Return the pods of a replicated job."""
    spec = get_object(get_object(job, "template"), "spec")
    return (get_count(job, "replicas") or 1) * (get_count(spec, "parallelism") or 1)


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
    """Return the resource and number of a container's GPUs."""
    resources = get_object(container, "resources")
    for section in ("limits", "requests"):
        values = get_object(resources, section)
        for name in RESOURCES:
            count = get_count(values, name)
            if count is not None and 0 < count <= _MAX_PER_NODE:
                return name, count
    return None


def _list_sections(container: Json, resource: str) -> tuple[str, ...]:
    resources = get_object(container, "resources")
    return tuple(
        section for section in ("limits", "requests") if resource in get_object(resources, section)
    )


def _read_environment(container: Json) -> dict[str, str]:
    pairs = get_objects(container, "env")
    return {
        name: value
        for pair in pairs
        if isinstance(name := pair.get("name"), str) and isinstance(value := pair.get("value"), str)
    }


def _is_controller(owner: Json) -> bool:
    return owner.get("controller") is True


def _follow(document: Json, path: Sequence[str]) -> Json:
    """Return the object at a path, whose numbers are places in lists."""
    value: object = document
    for name in path:
        if isinstance(value, list) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def clean_product(product: str) -> str:
    """Return a product label without the suffix of shared GPUs."""
    return product.removesuffix(SHARED_SUFFIX)
