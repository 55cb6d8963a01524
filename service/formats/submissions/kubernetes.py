"""Objects of Kubernetes as submissions: what an admission webhook is shown."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from service.formats.gpu_requests.pod_products import (
    MIG,
    SHARED,
    SHARED_SUFFIX,
    list_labels,
    list_names,
)
from service.formats.inventories.documents import Json, get_object, get_objects, get_text
from service.formats.submissions.pod_groups import KINDS, PodGroup, list_groups
from service.formats.submissions.submission import (
    ANNOTATION,
    GpuRequest,
    Submission,
    SubmissionError,
    find_note,
    split_names,
)

_MAX_SHOWN = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class PodJob:
    """An object as a submission.

    ``resources`` is the JSON pointer of the resources that ask for its GPUs, and ``resource`` their
    name there; ``None`` where nothing asks for any. ``remarks`` are for whoever submits it.
    """

    submission: Submission
    resources: str | None = None
    resource: str | None = None
    sections: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def read_object(document: Json, *, user: str | None = None) -> PodJob | None:
    """Return an object that runs pods as a submission.

    ``None`` for kinds that run none, and for what another object made: that one was shown before.

    Raises SubmissionError for one that is not shaped as its kind is, and where its pods ask for
    unlike numbers of GPUs.
    """
    kind, metadata = get_text(document, "kind"), get_object(document, "metadata")
    if kind not in KINDS or any(map(_is_controller, get_objects(metadata, "ownerReferences"))):
        return None
    groups = list_groups(kind, document)
    asking = _list_asking(groups)
    judged = (asking or groups)[0]
    gpus = _make_request(asking) if asking else None
    remarks = tuple(_list_remarks(asking))
    return PodJob(
        submission=replace(
            name_object(document, user=user),
            gpus=gpus,
            note=_find_note(get_object(metadata, "annotations"), (judged, *groups)),
            command=judged.command,
            environment=judged.environment,
            files=judged.files,
            # More of a node is a number; more nodes are pods that find each other otherwise,
            # slices do not reach each other, and more turns on a GPU are no more memory.
            can_change=gpus is not None and gpus.num_nodes == 1 and not (gpus.is_sliced or remarks),
        ),
        resources=None if judged.requested is None else judged.resources,
        resource=None if judged.requested is None else judged.requested[0],
        sections=judged.sections,
        remarks=remarks,
    )


def name_object(document: Json, *, user: str | None = None) -> Submission:
    """Return a submission with the names of an object alone."""
    metadata = get_object(document, "metadata")
    return Submission(
        scheduler="kubernetes",
        name=get_text(metadata, "name") or get_text(metadata, "generateName") or None,
        user=user,
        queue=get_text(metadata, "namespace") or None,
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


def _list_asking(groups: Sequence[PodGroup]) -> list[PodGroup]:
    """Return the groups that ask for GPUs.

    Those without pods, which an autoscaler may add, count where there are no others.
    """
    asking = [group for group in groups if group.requested is not None]
    return [group for group in asking if group.count] or asking[:1]


def _list_remarks(groups: Sequence[PodGroup]) -> Iterator[str]:
    """Yield a remark on GPUs that pods share."""
    labels = (label for group in groups for label in list_labels(group.spec))
    resources = (group.requested[0] for group in groups if group.requested is not None)
    shared = [label for label in labels if label.endswith(SHARED_SUFFIX)]
    shared += [name for name in resources if name == SHARED]
    for name in shared[:1]:
        # The API server cuts warnings of more than 256 characters.
        yield (
            f"{name[:_MAX_SHOWN]} is a GPU that several pods share at a time: others take of its "
            "memory too, and the answer is for all of it"
        )


def _find_note(annotations: Json, groups: Sequence[PodGroup]) -> str | None:
    """Return the question of an object, else of its pods.

    A driver without GPUs may say that of its workers.
    """
    for part in (annotations, *(group.annotations for group in groups)):
        if text := get_text(part, ANNOTATION):
            return text
    return next((note for group in groups if (note := find_note(group.environment))), None)


def _make_request(groups: Sequence[PodGroup]) -> GpuRequest:
    """Return the GPUs of all groups, which are nodes of one job.

    Raises SubmissionError where they are unlike: nothing says then which of them a question means.
    """
    requests = [group.requested for group in groups if group.requested is not None]
    numbers = dict.fromkeys(count for _, count in requests)
    if len(numbers) > 1:
        message = (
            f"its pods ask for {' and '.join(map(str, numbers))} GPUs each, and a question is "
            "about pods that ask for the same number; run the others as an object of their own"
        )
        raise SubmissionError(message, field="object")
    _, resource_profile = split_names(
        (name.removeprefix(MIG) for name, _ in requests), field="object"
    )
    names, label_profile = split_names(
        (name for group in groups for name in list_names(group.spec)), field="object"
    )
    return GpuRequest(
        per_node=next(iter(numbers)),
        num_nodes=sum(group.count for group in groups) or 1,
        names=names,
        # Where all slices of a node are alike, its label says them and the resource is a GPU's.
        slice_profile=resource_profile or label_profile,
    )


def _is_controller(owner: Json) -> bool:
    return owner.get("controller") is True
