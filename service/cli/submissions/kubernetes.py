"""Kubernetes: kubectl applies objects whose names carry the submission."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from service.cli.submissions.clients import read_json, require_success, run_client
from service.cli.submissions.journal import Entry
from service.cli.submissions.object_names import rename_objects
from service.cli.submissions.scheduler import Sighting
from service.formats.submissions.submission import ANNOTATION

LABEL = "headroom.dev/submission"
_MAX_NAME = 48
"""A label has 63 characters. Pods of a StatefulSet carry its name, "-" and a hash of 10 in one
(kubernetes#64023), and a LeaderWorkerSet adds "-" and the number of a replica to its name.
"""
_ENDS = frozenset(("Complete", "Failed"))
_FILES, _CONTEXT, _NAMESPACE = "KUBECONFIG", "context", "namespace"


class Kubernetes:
    """kubectl, in the context and the namespace that were current."""

    format = "kubernetes"

    def locate(self) -> Mapping[str, str]:
        """Return the context with its files and its namespace.

        A pod has none of them: kubectl speaks to the cluster that it is in.
        """
        output = run_client(("kubectl", "config", "view", "--minify", "--output=json"))
        if output.code != 0:
            return {}
        view = read_json("kubectl config view", output.out)
        files = os.environ.get(_FILES) or str(Path.home() / ".kube" / "config")
        return {
            # cron is in another folder.
            _FILES: os.pathsep.join(str(Path(file).absolute()) for file in files.split(os.pathsep)),
            _CONTEXT: str(view["current-context"]),
            _NAMESPACE: str(view["contexts"][0]["context"].get(_NAMESPACE, "default")),
        }

    def prepare(self, document: Any, entry: Entry) -> str:  # noqa: ANN401 - JSON
        """Return the objects with names of their own.

        Objects of another submission of the same plan would else be taken for these.
        """
        items = document["items"] if document.get("kind") == "List" else [document]
        renamed = rename_objects(items, entry.tag, _MAX_NAME)
        for item in renamed:
            item["metadata"].setdefault("labels", {})[LABEL] = entry.id
        if entry.question is not None:
            # The webhook answers it, and so knows whose question the job's pods have.
            runs = renamed[-1]["metadata"]
            runs.setdefault("annotations", {})[ANNOTATION] = json.dumps(entry.question)
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": renamed})

    def submit(self, entry: Entry) -> str:
        """Apply the objects; the last is the one that runs."""
        _call(entry, "apply")
        return _get_name(_list_objects(entry)[-1])

    def find(self, entry: Entry) -> Sighting:
        """Look for the objects by name; all of them make the job.

        Applying them again is safe, so that some of them alone are none.
        """
        present = _read_objects(_call(entry, "get", "--ignore-not-found", "--output=json"))
        names = [_get_name(item) for item in _list_objects(entry)]
        last = present.get(names[-1])
        if last is None or (entry.job is None and any(name not in present for name in names)):
            return Sighting(is_certain=True)
        return Sighting(job=names[-1], is_alive=not _has_ended(last))


def _call(entry: Entry, verb: str, *options: str) -> str:
    """Return what kubectl prints of the objects, where they were sent."""
    target = dict(entry.target)
    variables = {_FILES: target.pop(_FILES)} if _FILES in target else {}
    if any(_NAMESPACE in item["metadata"] for item in _list_objects(entry)):
        # kubectl refuses objects that name another.
        target.pop(_NAMESPACE, None)
    flags = [f"--{name}={value}" for name, value in target.items()]
    command = ("kubectl", verb, *flags, "--filename=-", *options)
    return require_success(command, run_client(command, entry.payload, variables))


def _list_objects(entry: Entry) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads(entry.payload)["items"]
    return items


def _read_objects(printed: str) -> dict[str, dict[str, Any]]:
    if not printed.strip():
        return {}
    document = json.loads(printed)
    items = document["items"] if document.get("kind") == "List" else [document]
    return {_get_name(item): item for item in items}


def _get_name(item: dict[str, Any]) -> str:
    return f"{str(item['kind']).lower()}/{item['metadata']['name']}"


def _has_ended(item: dict[str, Any]) -> bool:
    conditions = item.get("status", {}).get("conditions") or []
    return any(
        condition.get("type") in _ENDS and condition.get("status") == "True"
        for condition in conditions
    )
