"""The API in memory against answers that a real API server gave."""

import json
from typing import Any

import anyio
import httpx
import pytest

from service.kueue.errors import CONFLICT, GONE, NOT_FOUND, KubeError
from service.kueue.informer import Informer
from service.kueue.resources import JOB_SETS, WORKLOADS
from tests.schedulers.crds.answers import KEPT, list_requests
from tests.schedulers.crds.loop import FITS, make_job_set, make_workload
from tests.unit.kueue.clusters import FakeCluster, Json

ANSWERS: dict[str, Json] = json.loads(KEPT.read_text(encoding="utf-8"))
BY_SCHEMA = {"a state that is none", "a check that resizes"}
"""Refused by the schema of Kueue, which the API in memory has none of."""
WATCH = "a watch since an old version"


def fill(cluster: FakeCluster) -> tuple[Json, Json]:
    """Store what the requests are about; return a job and a Workload."""
    for name in ("j", "k"):
        job = make_job_set(name, FITS)
        job["metadata"]["namespace"] = "answers"
        cluster.put(JOB_SETS, job)
    workload, status = make_workload("w", FITS)
    workload["metadata"]["namespace"] = "answers"
    stored = cluster.get(cluster.put(WORKLOADS, {**workload, "status": status}))
    path = JOB_SETS.build_path("answers", "j")
    return cluster.objects[path], stored


@pytest.mark.parametrize("title", sorted(set(ANSWERS) - BY_SCHEMA - {WATCH}))
def test_the_api_in_memory_answers_as_the_real_one(title: str) -> None:
    """The same status, and the same kind of document."""
    cluster = FakeCluster(missing=frozenset({"nothings"}))
    method, path, kind, body = list_requests(*fill(cluster))[title]

    async def main() -> httpx.Response:
        transport = httpx.MockTransport(cluster.handle)
        async with httpx.AsyncClient(transport=transport, base_url="https://cluster") as client:
            return await client.request(
                method,
                path,
                content=None if body is None else json.dumps(body),
                headers={"content-type": kind or "application/json"},
            )

    answer = anyio.run(main)

    document: Any = answer.json()
    assert answer.status_code == ANSWERS[title]["code"]
    assert (document.get("kind") == "Status") == (answer.status_code >= 400)
    assert bool(document.get("metadata", {}).get("continue")) == ANSWERS[title]["continues"]


def test_a_real_server_tells_refusals_apart() -> None:
    """By the statuses that the controller goes by, each with a sentence for whoever reads it."""
    codes = {title: answer["code"] for title, answer in ANSWERS.items()}

    assert codes["an object that is not there"] == NOT_FOUND
    assert codes["a resource that is not installed"] == NOT_FOUND
    assert codes["an object of a name that is there"] == CONFLICT
    assert codes["a patch of an old version"] == CONFLICT
    assert codes["a status of an old version"] == CONFLICT
    assert ANSWERS[WATCH]["object"]["code"] == GONE
    for title in BY_SCHEMA:
        assert codes[title] >= 400, title
        assert ANSWERS[title]["message"], title


def test_a_watch_of_an_old_version_is_read_as_the_real_server_says_it() -> None:
    """A line of the watch, whose own status is 200."""
    kept = ANSWERS[WATCH]
    line = json.dumps({"type": kept["event"], "object": kept["object"]})
    cluster = FakeCluster(missing=frozenset(), ended=(line,))
    informer = Informer(
        api=cluster.connect(), resource=JOB_SETS, observe=lambda _job: None, resync_s=300.0
    )

    with pytest.raises(KubeError) as caught:
        anyio.run(informer.run_round)

    assert (kept["code"], caught.value.code) == (200, GONE)
    assert caught.value.detail == kept["object"]["message"]
