"""Objects of Kubernetes as submissions: what an admission webhook is shown.

Shapes: Kubernetes 1.37 (Pod, Job, Deployment), Kubeflow Trainer 2.3 (TrainJob), JobSet 0.12, LWS
0.10.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from service.formats.launches.values.launch import LaunchFile
from service.formats.submissions.submission import (
    ANNOTATION,
    GpuRequest,
    Submission,
    SubmissionError,
    find_note,
)

Json = Mapping[str, object]
RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
PRODUCT_LABELS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
)
"""Labels by which nodes name their GPUs: of the feature discoveries and of GKE."""
_TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "Pod": (),
    "Job": ("spec", "template"),
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "LeaderWorkerSet": ("spec", "leaderWorkerTemplate", "workerTemplate"),
    "JobSet": ("spec", "replicatedJobs", "0", "template", "spec", "template"),
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
    metadata = _get_object(document, "metadata")
    if any(_is_controller(owner) for owner in _list_objects(metadata.get("ownerReferences"))):
        return None
    if kind == "TrainJob":
        return _read_train_job(document, metadata, user)
    if not isinstance(kind, str) or kind not in _TEMPLATES:
        return None
    path = _TEMPLATES[kind]
    template = _follow(document, path)
    spec = _get_object(template, "spec")
    index, container = _choose_container(spec)
    requested = _find_request(container)
    environment = _read_environment(container)
    num_nodes = _count_nodes(kind, document)
    annotations = {
        **_get_object(_get_object(template, "metadata"), "annotations"),
        **_get_object(metadata, "annotations"),
    }
    gpus = None if requested is None else _make_request(requested[1], num_nodes, spec)
    return PodJob(
        submission=Submission(
            scheduler="kubernetes",
            name=_get_text(metadata, "name") or _get_text(metadata, "generateName"),
            user=user,
            queue=_get_text(metadata, "namespace"),
            gpus=gpus,
            note=_get_text(annotations, ANNOTATION) or find_note(environment),
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
    trainer = _get_object(_get_object(document, "spec"), "trainer")
    resources = {"resources": _get_object(trainer, "resourcesPerNode")}
    requested = _find_request(resources)
    environment = _read_environment(trainer)
    num_nodes = _get_count(trainer, "numNodes")
    annotations = _get_object(metadata, "annotations")
    return PodJob(
        submission=Submission(
            scheduler="kubernetes",
            name=_get_text(metadata, "name") or _get_text(metadata, "generateName"),
            user=user,
            queue=_get_text(metadata, "namespace"),
            gpus=None
            if requested is None
            else GpuRequest(per_node=requested[1], num_nodes=num_nodes),
            note=_get_text(annotations, ANNOTATION) or find_note(environment),
            command=(*_list_texts(trainer.get("command")), *_list_texts(trainer.get("args"))),
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
    selector = _get_object(spec, "nodeSelector")
    named = [_get_text(selector, label) for label in PRODUCT_LABELS]
    names = [name for name in named if name is not None] or list(_iter_affine_products(spec))
    return GpuRequest(per_node=count, num_nodes=num_nodes, names=tuple(names))


def _iter_affine_products(spec: Json) -> Iterator[str]:
    """Yield the GPU products that a required node affinity names."""
    affinity = _get_object(_get_object(spec, "affinity"), "nodeAffinity")
    required = _get_object(affinity, "requiredDuringSchedulingIgnoredDuringExecution")
    for term in _list_objects(required.get("nodeSelectorTerms")):
        for expression in _list_objects(term.get("matchExpressions")):
            if expression.get("key") in PRODUCT_LABELS and expression.get("operator") == "In":
                yield from _list_texts(expression.get("values"))


def _count_nodes(kind: str, document: Json) -> int:
    """Return on how many nodes one job of this object runs."""
    spec = _get_object(document, "spec")
    if kind == "Job":
        return _get_count(spec, "parallelism")
    if kind == "LeaderWorkerSet":
        return _get_count(_get_object(spec, "leaderWorkerTemplate"), "size")
    if kind == "JobSet":
        jobs = _list_objects(spec.get("replicatedJobs"))
        return sum(
            _get_count(job, "replicas")
            * _get_count(_get_object(_get_object(job, "template"), "spec"), "parallelism")
            for job in jobs
        )
    return 1


def _choose_container(spec: Json) -> tuple[int, Json]:
    """Return the first container that asks for GPUs, else the first."""
    containers = _list_objects(spec.get("containers"))
    if not containers:
        message = "the object has no containers: it is no Pod, and has no template of one"
        raise SubmissionError(message, field="object")
    for index, container in enumerate(containers):
        if _find_request(container) is not None:
            return index, container
    return 0, containers[0]


def _find_request(container: Json) -> tuple[str, int] | None:
    """Return the resource and number of a container's GPUs."""
    resources = _get_object(container, "resources")
    for section in ("limits", "requests"):
        values = _get_object(resources, section)
        for name in RESOURCES:
            text = str(values.get(name, "")).strip()
            if text.isascii() and text.isdigit() and len(text) <= len("65536") and int(text):
                return name, int(text)
    return None


def _list_sections(container: Json, resource: str) -> tuple[str, ...]:
    resources = _get_object(container, "resources")
    return tuple(
        section for section in ("limits", "requests") if resource in _get_object(resources, section)
    )


def _read_environment(container: Json) -> dict[str, str]:
    pairs = _list_objects(container.get("env"))
    return {
        name: value
        for pair in pairs
        if isinstance(name := pair.get("name"), str) and isinstance(value := pair.get("value"), str)
    }


def _is_controller(owner: Json) -> bool:
    return owner.get("controller") is True


def _follow(document: Json, path: Sequence[str]) -> Json:
    for name in path:
        if name.isdigit():
            continue
        value = document.get(name)
        if isinstance(value, Sequence) and not isinstance(value, str):
            first = _list_objects(value)
            document = first[0] if first else {}
        else:
            document = _get_object(document, name)
    return document


def _get_object(document: Json, name: str) -> Json:
    value = document.get(name)
    return value if isinstance(value, Mapping) else {}


def _get_text(document: Json, name: str) -> str | None:
    value = document.get(name)
    return value if isinstance(value, str) and value else None


def _get_count(document: Json, name: str) -> int:
    value = document.get(name)
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    return int(str(value)) if is_count else 1


def _list_objects(value: object) -> list[Json]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return []
    return [item for item in value if isinstance(item, Mapping)]


def _list_texts(value: object) -> list[str]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return []
    return [item for item in value if isinstance(item, str)]
