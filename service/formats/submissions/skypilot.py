"""Tasks of SkyPilot as submissions: what an admin policy is shown.

Shape: ``sky.admin_policy.UserRequest`` of SkyPilot 0.14.1, whose tasks are YAML as
``Task.to_yaml_config`` writes it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import yaml

from service.formats.inventories.documents import (
    Json,
    get_count,
    get_object,
    get_objects,
    get_text,
)
from service.formats.launches.sources.documents import read_mapping
from service.formats.submissions.submission import (
    DIGEST,
    GpuRequest,
    Submission,
    SubmissionError,
    find_note,
)

_CHOICES = ("any_of", "ordered")
_TPU = "tpu"
_DUMPER: type[yaml.SafeDumper] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""libyaml's where the package was built with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkyTask:
    """A task as a submission, beside its plain document."""

    submission: Submission
    document: dict[str, Any]


def read_task(text: str, *, user: str | None = None) -> SkyTask:
    """Return a task as a submission.

    Raises LaunchFormatError for what is no YAML mapping, SubmissionError for one that is not shaped
    as a task is.
    """
    document = read_mapping("task", text)
    resources = get_object(document, "resources")
    offers = list(_iter_offers(resources))
    num_nodes = get_count(document, "num_nodes") or 1
    environment = _read_environment(get_object(document, "envs"))
    script = get_text(document, "run") or None
    gpus = None
    if offers:
        # Which of several a job gets is not known yet: what holds for the fewest holds for all.
        gpus = GpuRequest(
            per_node=min(count for _, count in offers),
            num_nodes=num_nodes,
            names=tuple(dict.fromkeys(name for name, _ in offers)),
        )
    return SkyTask(
        submission=Submission(
            scheduler="skypilot",
            name=get_text(document, "name") or None,
            user=user,
            gpus=gpus,
            note=find_note(environment, script),
            script=script,
            environment=environment,
            can_change=len(offers) == 1 and num_nodes == 1,
        ),
        document=document,
    )


def read_user(text: str) -> str | None:
    """Return the name of a user, which SkyPilot writes as YAML.

    ``None`` where it says none.
    """
    user = read_mapping("user", text)
    return get_text(user, "name") or get_text(user, "id") or None


def name_question(task: SkyTask, digest: str) -> SkyTask:
    """Return a task whose processes know which question was answered for it."""
    envs = task.document.get("envs") or {}
    if not isinstance(envs, dict):
        # SkyPilot itself sends no other form.
        return task
    return replace(task, document={**task.document, "envs": {**envs, DIGEST: digest}})


def write_task(task: SkyTask) -> str:
    """Return a task as YAML."""
    text: str = yaml.dump(task.document, Dumper=_DUMPER, sort_keys=False, allow_unicode=True)
    return text


def change_task(task: SkyTask, per_node: int) -> SkyTask:
    """Return a task with other GPUs on each node."""
    offers = list(_iter_offers(get_object(task.document, "resources")))
    if len(offers) != 1:
        message = (
            "the task has no accelerators, or a choice of them, whose number cannot be changed"
        )
        raise SubmissionError(message, field="task")
    resources = task.document["resources"] | {"accelerators": {offers[0][0]: per_node}}
    return replace(task, document=task.document | {"resources": resources})


def _iter_offers(resources: Json) -> Iterator[tuple[str, int]]:
    """Yield each GPU that a job may get, with its number."""
    yield from _iter_accelerators(resources.get("accelerators"))
    for choice in _CHOICES:
        for offer in get_objects(resources, choice):
            yield from _iter_accelerators(offer.get("accelerators"))


def _iter_accelerators(value: object) -> Iterator[tuple[str, int]]:
    """Yield name and number of accelerators in any of SkyPilot's forms.

    They are ``A100:8``, ``{A100: 8}`` and lists of the first; TPUs and shares of a GPU are left
    out.
    """
    if isinstance(value, list):
        for item in value:
            yield from _iter_accelerators(item)
        return
    pairs: list[tuple[str, object]] = []
    if isinstance(value, dict):
        pairs = [(name, 1 if count is None else count) for name, count in value.items()]
    elif isinstance(value, str) and value:
        name, _, number = value.partition(":")
        pairs = [(name.strip(), number.strip() or 1)]
    for name, count in pairs:
        num_gpus = get_count({"count": count}, "count")
        if num_gpus and not name.casefold().startswith(_TPU):
            yield name, num_gpus


def _read_environment(variables: Json) -> dict[str, str]:
    return {name: str(value) for name, value in variables.items() if value is not None}
