"""Runs of dstack as submissions: what a REST plugin is shown.

Shape: ``RunSpec`` of dstack 0.22.5.
"""

from typing import Any

from service.formats.inventories.documents import (
    Json,
    get_count,
    get_object,
    get_text,
    get_texts,
)
from service.formats.submissions.submission import (
    DIGEST,
    GpuRequest,
    Submission,
    SubmissionError,
    find_note,
)


def read_run(spec: Json, *, user: str | None = None, project: str | None = None) -> Submission:
    """Return a run as a submission.

    Of a range of GPUs it is the lowest number, and of a range of memory the least: the run may get
    no more. Raises SubmissionError for a run without a configuration.
    """
    configuration = get_object(spec, "configuration")
    if not configuration:
        message = "the run has no configuration: it is a RunSpec of dstack's"
        raise SubmissionError(message, field="spec")
    variables = get_object(configuration, "env")
    environment = {name: text for name, text in variables.items() if isinstance(text, str)}
    script = "\n".join(_list_texts(configuration, "commands")) or None
    gpus = _read_gpus(configuration)
    return Submission(
        scheduler="dstack",
        name=get_text(spec, "run_name") or get_text(configuration, "name") or None,
        user=user,
        queue=project,
        gpus=gpus,
        note=find_note(environment, script),
        script=script,
        environment=environment,
        can_change=gpus is not None and gpus.num_nodes == 1,
    )


def change_run(spec: Json, per_node: int) -> dict[str, Any]:
    """Return the run with exactly ``per_node`` GPUs on each node."""
    configuration = get_object(spec, "configuration")
    resources = get_object(configuration, "resources")
    count = {"min": per_node, "max": per_node}
    gpu = {**get_object(resources, "gpu"), "count": count}
    return {
        **spec,
        "configuration": {**configuration, "resources": {**resources, "gpu": gpu}},
    }


def name_question(spec: Json, digest: str) -> dict[str, Any]:
    """Return the run, whose processes know which question was answered for it."""
    configuration = get_object(spec, "configuration")
    env = configuration.get("env") or {}
    if not isinstance(env, dict):
        # dstack itself sends no other form.
        return dict(spec)
    return {**spec, "configuration": {**configuration, "env": {**env, DIGEST: digest}}}


def _read_gpus(configuration: Json) -> GpuRequest | None:
    gpu = get_object(get_object(configuration, "resources"), "gpu")
    count = get_count(get_object(gpu, "count"), "min") if gpu else None
    if not count:
        return None
    memory = get_object(gpu, "memory").get("min")
    return GpuRequest(
        per_node=count,
        num_nodes=get_count(configuration, "nodes") or 1,
        names=get_texts(gpu, "name"),
        memory_gb=float(memory) if isinstance(memory, int | float) else None,
    )


def _list_texts(part: Json, name: str) -> list[str]:
    value = part.get(name)
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
