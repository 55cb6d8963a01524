"""Definitions of upstream resources, read from git clones, and put into a server."""

import subprocess
import time
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import yaml

Json = dict[str, Any]
_PATHS = {
    "kubernetes-sigs/kueue": ("config/components/crd/bases",),
    "kubernetes-sigs/jobset": ("config/components/crd/bases",),
    "kubernetes-sigs/lws": ("config/crd/bases",),
    "ray-project/kuberay": ("ray-operator/config/crd/bases",),
    "kubeflow/trainer": ("manifests/base/crds",),
    "volcano-sh/volcano": ("config/crd/volcano/bases",),
    "kserve/kserve": ("config/crd/full/llmisvc",),
    "cert-manager/cert-manager": ("deploy/crds",),
}
_KINDS = frozenset(
    {
        "AdmissionCheck",
        "Certificate",
        "DisaggregatedSet",
        "Issuer",
        "Job",
        "JobSet",
        "LLMInferenceService",
        "LeaderWorkerSet",
        "RayJob",
        "RayService",
        "ResourceFlavor",
        "TrainJob",
        "Workload",
    }
)
"""Kinds that are rendered, or that the controller reads: a server with all takes a gigabyte."""
_STAND_INS = (
    ("coordination.k8s.io", "v1", "leases", "Lease"),
    ("events.k8s.io", "v1", "events", "Event"),
)
"""Resources of a whole API server that the controller writes; here without their schemas."""
_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_PATIENCE_S = 60.0


def read_definitions(clones: Path) -> Iterator[Json]:
    """Yield the definitions of the kinds that matter; a clone is a folder owner+name."""
    for repository, folders in _PATHS.items():
        clone = clones / repository.replace("/", "+")
        for folder in folders:
            for name in _git(clone, "ls-tree", "--name-only", "HEAD", f"{folder}/").splitlines():
                if name.endswith(".yaml") and "kustomization" not in name:
                    yield from _load(_git(clone, "show", f"HEAD:{name}"))


def make_stand_ins() -> Iterator[Json]:
    """Yield definitions of leases and events, of any shape."""
    for group, version, plural, kind in _STAND_INS:
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        yield {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": f"{plural}.{group}",
                "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
            },
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
                "versions": [
                    {
                        "name": version,
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": schema},
                    }
                ],
            },
        }


def establish(client: httpx.Client, definitions: list[Json]) -> dict[tuple[str, str], str]:
    """Put definitions into a server; return the plural of each apiVersion and kind."""
    plurals = {}
    for definition in definitions:
        _put(client, definition)
        spec = definition["spec"]
        for version in spec["versions"]:
            key = f"{spec['group']}/{version['name']}", spec["names"]["kind"]
            plurals[key] = spec["names"]["plural"]
    deadline = time.monotonic() + _PATIENCE_S
    waiting = {str(definition["metadata"]["name"]) for definition in definitions}
    while waiting:
        assert time.monotonic() < deadline, f"not established: {waiting}"
        waiting = {name for name in waiting if not _is_established(client, name)}
        time.sleep(0.1)
    return plurals


def _put(client: httpx.Client, definition: Json) -> None:
    """Create a definition, again where a busy machine took too long for it."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        answer = client.post(_PATH, json=definition)
        if answer.is_success or answer.status_code == HTTPStatus.CONFLICT:
            return
        is_late = answer.status_code == HTTPStatus.GATEWAY_TIMEOUT
        assert is_late and time.monotonic() < deadline, (  # noqa: PT018 - one answer
            f"{definition['metadata']['name']}: {answer.text}"
        )


def _is_established(client: httpx.Client, name: str) -> bool:
    status = client.get(f"{_PATH}/{name}").json().get("status") or {}
    conditions = status.get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def _load(text: str) -> Iterator[Json]:
    # The library's own loader takes minutes for what libyaml reads in seconds.
    for document in yaml.load_all(text, Loader=yaml.CSafeLoader):
        if (
            document
            and document.get("kind") == "CustomResourceDefinition"
            and document["spec"].get("names", {}).get("kind") in _KINDS
        ):
            # Conversion asks a webhook of the operator, which does not run here.
            document["spec"].pop("conversion", None)
            document["metadata"].pop("annotations", None)
            document.pop("status", None)
            yield document


def _git(clone: Path, *words: str) -> str:
    command = ["git", "-C", str(clone), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
