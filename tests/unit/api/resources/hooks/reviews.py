"""Reviews that an API server asks the admission webhook for."""

from typing import Any

from litestar.testing import TestClient

FITS = "llama-3.2-1b --gpu A100-SXM4-80GB --task train --sequence-length 1024"
TOO_LARGE = (
    "llama-2-7b --gpu A100-SXM4-80GB --task train --sequence-length 4096 --zero-stage 3 "
    "--activation-checkpointing full"
)


def a_job(note: str | None = None, gpus: int = 1, nodes: int = 1, **spec: object) -> dict[str, Any]:
    """Return a Job that asks for GPUs."""
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": gpus}}, **spec}
    annotations = {} if note is None else {"headroom.dev/question": note}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "tune", "annotations": annotations},
        "spec": {
            "completionMode": "Indexed",
            "parallelism": nodes,
            "template": {"spec": {"containers": [container]}},
        },
    }


def review(client: TestClient[Any], document: object, mode: str = "") -> dict[str, Any]:
    """Return the response to a review of an object."""
    body = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u1",
            "operation": "CREATE",
            "object": document,
            "userInfo": {"username": "ann", "groups": ["g"]},
            "kind": {"group": "batch", "version": "v1", "kind": "Job"},
        },
    }
    answer = client.post(f"/v1/hooks/kubernetes{mode and '/' + mode}", json=body)
    assert answer.status_code == 200, answer.text
    reviewed = answer.json()
    assert (reviewed["apiVersion"], reviewed["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert reviewed["response"]["uid"] == "u1"
    return dict(reviewed["response"])
