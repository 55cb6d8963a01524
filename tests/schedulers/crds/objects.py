"""Rendered objects before a real API server: each is taken, and each is refused when broken."""

import copy
import sys
from collections.abc import Iterator
from typing import Any

import httpx

from tests.unit.deploy.releases import EVERYTHING, rendered
from tests.unit.formats.manifests.samples import list_samples

Json = dict[str, Any]
Plurals = dict[tuple[str, str], str]
_BROKEN: dict[str, tuple[str, object]] = {
    "JobSet": ("spec.replicatedJobs.0.replicas", "one"),
    "TrainJob": ("spec.trainer.numProcPerNode", "auto"),
    "RayJob": ("spec.rayClusterSpec.workerGroupSpecs.0.minReplicas", "none"),
    "RayService": ("spec.rayClusterConfig.workerGroupSpecs.0.minReplicas", "none"),
    "LeaderWorkerSet": ("spec.replicas", "all"),
    "DisaggregatedSet": ("spec.roles.0.spec.replicas", "all"),
    "LLMInferenceService": ("spec.parallelism.tensor", 0),
    "Job": ("spec.minAvailable", "all"),
    "AdmissionCheck": ("spec.controllerName", None),
    "Certificate": ("spec.issuerRef", None),
    "Issuer": ("spec.selfSigned", "yes"),
}
"""One value of each kind that its schema does not take: ``None`` takes it away."""


def check_objects(client: httpx.Client, plurals: Plurals) -> Iterator[str]:
    """Yield a fault for each rendered object that is refused, and each broken one that is taken.

    Nothing is stored. The server is asked to refuse fields that it does not know.
    """
    samples: dict[str, Json] = {}
    counts: dict[str, int] = {}
    for title, document in _list_objects(plurals):
        kind = document["kind"]
        answer = _send(client, plurals, document)
        counts[kind] = counts.get(kind, 0) + 1
        if not answer.is_success:
            yield f"{title}: {kind} is refused: {answer.json()['message']}"
        samples.setdefault(kind, document)
    for kind, number in sorted(counts.items()):
        sys.stdout.write(f"{kind}: {number} rendered\n")
    yield from _check_broken(client, plurals, samples)
    for kind in sorted(set(_BROKEN) - set(samples)):
        yield f"{kind}: none is rendered, or its definition is missing"


def _check_broken(
    client: httpx.Client, plurals: Plurals, samples: dict[str, Json]
) -> Iterator[str]:
    for kind, document in sorted(samples.items()):
        path, value = _BROKEN[kind]
        for broken, what in (
            (_change(document, path, value), f"{path} = {value!r}"),
            (_change(document, "spec.headroomTypo", 1), "a field that is misspelt"),
        ):
            answer = _send(client, plurals, broken)
            sys.stdout.write(f"{kind}, {what}: {answer.status_code}\n")
            if answer.is_success:
                yield f"{kind} is taken with {what}"


def _list_objects(plurals: Plurals) -> Iterator[tuple[str, Json]]:
    """Yield every object that is rendered, and that the server has a definition of."""
    for word, name, document in list_samples():
        rendering: Any = document
        if isinstance(rendering, dict):
            for item in rendering.get("items", [rendering]):
                if (item.get("apiVersion"), item.get("kind")) in plurals:
                    yield f"{word}, {name}", item
    for item in rendered(EVERYTHING):
        if (item["apiVersion"], item["kind"]) in plurals:
            yield "the chart", item


def _send(client: httpx.Client, plurals: Plurals, document: Json) -> httpx.Response:
    """Return what the server says about a new object, which it does not keep."""
    version, kind = document["apiVersion"], document["kind"]
    namespace = "" if kind == "AdmissionCheck" else "/namespaces/default"
    metadata = {key: value for key, value in document["metadata"].items() if key != "namespace"}
    path = f"/apis/{version}{namespace}/{plurals[version, kind]}"
    return client.post(
        path,
        json={**document, "metadata": metadata},
        params={"dryRun": "All", "fieldValidation": "Strict"},
    )


def _change(document: Json, path: str, value: object) -> Json:
    changed = copy.deepcopy(document)
    *parents, last = path.split(".")
    inner: Any = changed
    for word in parents:
        inner = inner[int(word)] if isinstance(inner, list) else inner.setdefault(word, {})
    if value is None:
        del inner[last]
    else:
        inner[last] = value
    return changed
