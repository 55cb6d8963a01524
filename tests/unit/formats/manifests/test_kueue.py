"""Kueue: what runs pods waits in a queue, and nothing starts before it is admitted."""

from typing import Any

import pytest
from kubernetes_validate import validate

from service.estimator.values.layout import Layout
from service.estimator.values.workload import Engine, ServeWorkload
from service.formats.manifests.registry import render_format
from service.formats.renderings.job import Job
from tests.unit.formats.renderings.builders import a_job

CHAT = ServeWorkload(num_sequences=8, prompt_tokens=512, engine=Engine.VLLM)
REPLICA = a_job(CHAT, Layout(tensor_parallel=2))
LARGE = a_job(CHAT, Layout(tensor_parallel=8, pipeline_parallel=2), model="llama-2-70b")


def _list_items(word: str, job: Job) -> list[dict[str, Any]]:
    document: Any = render_format(word, job).document
    items: list[dict[str, Any]] = document["items"]
    return items


@pytest.mark.parametrize(
    ("job", "kind"),
    [(a_job(), "Job"), (REPLICA, "Deployment"), (LARGE, "LeaderWorkerSet")],
)
def test_what_runs_pods_is_in_a_queue(job: Job, kind: str) -> None:
    """The label is the object's own, as Kueue reads it, and no other object has it."""
    *others, workload = _list_items("kueue", job)

    assert workload["kind"] == kind
    assert workload["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "default"}
    assert all("labels" not in item["metadata"] for item in others)


def test_a_job_is_suspended_until_it_is_admitted() -> None:
    """Beside the queue it is the Job of Kubernetes, which starts at once."""
    *_, queued = _list_items("kueue", a_job())
    *_, plain = _list_items("kubernetes", a_job())

    assert queued["spec"] == {"suspend": True, **plain["spec"]}
    assert "suspend" not in plain["spec"]


@pytest.mark.parametrize("job", [a_job(), REPLICA])
def test_kubernetes_schema_takes_queued_objects(job: Job) -> None:
    """Kubernetes 1.37's own schema, strict, refuses none of them."""
    for item in _list_items("kueue", job):
        validate(item, "1.37", strict=True)


def test_no_image_is_said_in_words() -> None:
    """A queued job without an image would be refused once it is admitted."""
    rendering = render_format("kueue", a_job(layout=Layout(), gpu="Gaudi2-96GB"))

    assert rendering.document is None
    assert rendering.reason is not None
    assert "needs an image" in rendering.reason
