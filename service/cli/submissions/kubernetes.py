"""Kubernetes: kubectl applies objects whose names carry the submission."""

import json
import re
from typing import Any

from service.cli.submissions.clients import require_success, run_client
from service.cli.submissions.journal import Entry
from service.cli.submissions.scheduler import Sighting

LABEL = "headroom.dev/submission"
_MAX_NAME = 40
_ENDS = frozenset(("Complete", "Failed"))


class Kubernetes:
    """kubectl, in its current context."""

    format = "kubernetes"

    def prepare(self, document: Any, submission_id: str) -> str:  # noqa: ANN401 - JSON
        """Return the objects with names of their own.

        Objects of another submission of the same plan would else be taken for these.
        """
        items = document["items"] if document.get("kind") == "List" else [document]
        name = min((str(item["metadata"]["name"]) for item in items), key=len)
        new = f"{name[:_MAX_NAME].rstrip('-.')}-{submission_id}"
        pattern = re.compile(rf"(?<![A-Za-z0-9./-]){re.escape(name)}(?![A-Za-z0-9])")
        text = json.dumps([_rename(item, pattern, new) for item in items])
        renamed: list[dict[str, Any]] = json.loads(text)
        for item in renamed:
            item["metadata"].setdefault("labels", {})[LABEL] = submission_id
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": renamed})

    def submit(self, entry: Entry) -> str:
        """Apply the objects; the last is the one that runs."""
        command = ("kubectl", "apply", "--filename=-")
        require_success(command, run_client(command, entry.payload))
        return _get_name(json.loads(entry.payload)["items"][-1])

    def find(self, entry: Entry) -> Sighting:
        """Look for the objects by name; all of them make the job.

        Applying them again is safe, so that some of them alone are none.
        """
        command = ("kubectl", "get", "--filename=-", "--ignore-not-found", "--output=json")
        printed = require_success(command, run_client(command, entry.payload))
        present = _read_objects(printed)
        names = [_get_name(item) for item in json.loads(entry.payload)["items"]]
        last = present.get(names[-1])
        if last is None or (entry.job is None and any(name not in present for name in names)):
            return Sighting(is_certain=True)
        return Sighting(job=names[-1], is_alive=not _has_ended(last))


def _rename(value: Any, pattern: re.Pattern[str], new: str) -> Any:  # noqa: ANN401 - JSON
    match value:
        case str():
            return pattern.sub(new, value)
        case dict():
            return {key: _rename(item, pattern, new) for key, item in value.items()}
        case list():
            return [_rename(item, pattern, new) for item in value]
        case _:
            return value


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
