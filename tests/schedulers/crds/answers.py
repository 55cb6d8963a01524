"""Answers of a real API server that the controller's own fake has to give as well.

``python -m tests.schedulers.crds --write`` keeps them in ``tests/unit/kueue/api_answers.json``,
where the suite holds the fake against them.
"""

import json
import re
from pathlib import Path
from typing import Any

import httpx

from tests.schedulers.crds.loop import FITS, make_job_set, make_workload

Json = dict[str, Any]
KEPT = Path(__file__).resolve().parents[2] / "unit" / "kueue" / "api_answers.json"
_GROUP = "/apis/kueue.x-k8s.io/v1beta2"
_SETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/answers/jobsets"
_WORKLOADS = f"{_GROUP}/namespaces/answers/workloads"
_PATCH, _APPLY = "application/json-patch+json", "application/apply-patch+yaml"
_OLD = "1"


def list_requests(job: Json, workload: Json) -> dict[str, tuple[str, str, str, Any]]:
    """Return method, path, media type and body of each request, by what is wrong or right in it."""
    version = job["metadata"]["resourceVersion"]
    old = {"op": "replace", "path": "/metadata/resourceVersion", "value": _OLD}
    now = {**old, "value": version}
    gone = {"op": "remove", "path": "/metadata/annotations/no-such"}
    note = {"op": "add", "path": "/metadata/annotations/headroom.dev~1decision", "value": "fits"}
    state = {
        "name": "headroom",
        "state": "Ready",
        "message": "fits",
        "lastTransitionTime": "2026-11-22T10:00:00Z",
    }
    named = {"name": "w", "namespace": "answers"}
    apply = {"apiVersion": workload["apiVersion"], "kind": "Workload", "metadata": named}
    aged = {**apply, "metadata": {**named, "resourceVersion": _OLD}}
    path = f"{_WORKLOADS}/w/status?fieldManager=headroom&force=true"
    resized = [{**state, "podSetUpdates": [{"name": "main", "resources": {}}]}]
    return {
        "an object that is not there": ("GET", f"{_SETS}/nobody", "", None),
        "a resource that is not installed": ("GET", f"{_GROUP}/nothings", "", None),
        "an object of a name that is there": ("POST", _SETS, "", make_job_set("j", FITS)),
        "a patch of an old version": ("PATCH", f"{_SETS}/j", _PATCH, [old, note]),
        "a patch of nothing": ("PATCH", f"{_SETS}/nobody", _PATCH, [now, note]),
        "a patch of a missing annotation": ("PATCH", f"{_SETS}/j", _PATCH, [now, gone]),
        "a patch of this version": ("PATCH", f"{_SETS}/j", _PATCH, [now, note]),
        "a state that is none": (
            "PATCH",
            path,
            _APPLY,
            {**apply, "status": {"admissionChecks": [{**state, "state": "Nope"}]}},
        ),
        "a check that resizes": (
            "PATCH",
            path,
            _APPLY,
            {**apply, "status": {"admissionChecks": resized}},
        ),
        "a status of an old version": (
            "PATCH",
            path,
            _APPLY,
            {**aged, "status": {"admissionChecks": [state]}},
        ),
        "a status": ("PATCH", path, _APPLY, {**apply, "status": {"admissionChecks": [state]}}),
        "a list": ("GET", f"{_SETS}?limit=1", "", None),
    }


def capture(client: httpx.Client) -> dict[str, Json]:
    """Return status, reason and message of each answer."""
    job = client.post(_SETS, json=make_job_set("j", FITS)).json()
    client.post(_SETS, json=make_job_set("k", FITS))
    document, status = make_workload("w", FITS)
    stored = client.post(_WORKLOADS, json=document).json()
    client.put(f"{_WORKLOADS}/w/status", json={**stored, "status": status})
    answers = {}
    for title, (method, path, kind, body) in list_requests(job, stored).items():
        answer = client.request(
            method,
            path,
            content=None if body is None else json.dumps(body),
            headers={"content-type": kind or "application/json"},
        )
        document = _parse(answer.text)
        answers[title] = {
            "code": answer.status_code,
            "reason": document.get("reason"),
            "message": document.get("message"),
            "kind": document.get("kind"),
            "continues": bool(document.get("metadata", {}).get("continue")),
        }
    answers["a watch since an old version"] = _watch(client)
    return answers


def _parse(text: str) -> Json:
    """Return an answer's document; a path that nobody serves has a plain text."""
    try:
        document: Json = json.loads(text)
    except ValueError:
        return {"message": text.strip()}
    return document


def _watch(client: httpx.Client) -> Json:
    """Return what a watch says whose version the store has forgotten."""
    query = {"watch": "true", "resourceVersion": _OLD, "timeoutSeconds": "5"}
    with client.stream("GET", _SETS, params=query) as answer:
        event = json.loads(next(answer.iter_lines(), "{}"))
        document = event.get("object", {})
        # In brackets stands the oldest version that it has, of each run another.
        message = re.sub(r" \(\d+\)$", "", str(document.get("message")))
        kept = {"code": document.get("code"), "reason": document.get("reason"), "message": message}
        return {"code": answer.status_code, "event": event.get("type"), "object": kept}
