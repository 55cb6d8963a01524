"""The log of hooks: who asked what, and what is written down of it."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from litestar.testing import TestClient

from service.access.keys import Principal, Scope
from service.api.http.auth import Access, Guard
from service.api.resources.hooks import computing
from service.api.resources.hooks.digests import MAX_QUESTION_BYTES, digest_question
from service.contract.schemas.fit import FitRequest
from service.contract.to_question.validation_errors import decode
from service.usecases.hooks.log import HookDecision
from service.usecases.hooks.repeats import RecentDecisions
from tests.unit.api.builders import FIT, patient_parts, served
from tests.unit.api.resources.hooks.searches import EndlessSearches, FaultySearches

FITS = "llama-3.2-1b --task train --sequence-length 1024"
TOO_LARGE = (
    "llama-2-7b --task train --sequence-length 4096 --zero-stage 3 --activation-checkpointing full"
)
KEY = UUID("3f0f2c9e-6a43-4c0e-9a52-1d5f6a2f7a10")
SCHEDULER = Principal(name="slurm", scopes=frozenset({Scope.READ}), key_id=str(KEY))

SAMPLES = Path(__file__).with_name("samples")


class Door:
    """A server that hooks ask, and what it wrote down."""

    def __init__(self, client: TestClient[Any], written: list[HookDecision]) -> None:
        """Ask through ``client``; the server writes into ``written``."""
        self._client = client
        self._written = written

    def ask(self, path: str, body: object) -> tuple[Any, list[HookDecision]]:
        """Return the answer and what was written down of it."""
        self._written.clear()
        headers = {"x-api-key": "hr_1", "x-request-id": "r-1"}
        answer = self._client.post(f"/v1/hooks/{path}", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json(), list(self._written)


@pytest.fixture(scope="module", name="door")
def start() -> Iterator[Door]:
    """Serve the API over fakes, with a link and a log."""
    made = patient_parts(public_url="https://headroom.example/gpu")
    written = list[HookDecision]()
    guard = Guard(Access.KEYS, find=lambda _text: SCHEDULER)
    with served(replace(made, guard=guard, record_decision=written.append)) as client:
        yield Door(client, written)


def a_job(words: str, **members: object) -> dict[str, Any]:
    """Return a job of Slurm's whose script says its question."""
    options = {
        "argv": ["job.sh"],
        "gres": "gres/gpu:nvidia_a100-sxm4-80gb:1",
        "job-name": "tu\x07ne",
        "partition": "gpu",
    }
    return {"options": options, "script": f"#HEADROOM {words}\n", "user": "ann"} | members


def a_pod(gpus: int = 1) -> dict[str, Any]:
    """Return a pod that says its question."""
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    annotations = {"headroom.dev/question": TOO_LARGE}
    metadata = {"name": "tune-x", "namespace": "ml", "annotations": annotations}
    return {"metadata": metadata, "spec": {"containers": [container]}}


A100S = [
    {
        "metadata": {
            "name": name,
            "labels": {
                "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
                "nvidia.com/gpu.memory": "81920",
            },
        }
    }
    for name in ("n1", "n2")
]


def test_a_decision_is_written_down(door: Door) -> None:
    """Who asked, by whose key, what of, and the line that the user read, with its link."""
    answer, [row] = door.ask("slurm/refuse", a_job(TOO_LARGE))

    assert (row.door, row.mode, row.verdict, row.action) == (
        "slurm",
        "refuse",
        "does_not_fit",
        "refuse",
    )
    assert (row.user_name, row.queue, row.job_name) == ("ann", "gpu", "tune")
    assert (row.principal, row.key_id, row.request_id) == ("slurm", KEY, "r-1")
    assert row.gpu == "A100-SXM4-80GB"
    assert row.needed_bytes is not None
    assert row.usable_bytes is not None
    assert row.needed_bytes > row.usable_bytes
    assert row.sentence == answer["sentence"]
    assert row.sentence.endswith(
        f"; it needs 2 x A100-SXM4-80GB https://headroom.example/gpu/questions/{row.digest}"
    )


@pytest.mark.parametrize(
    ("mode", "address", "end"),
    [
        ("warn", None, "ask again for how many GPUs it needs"),
        (
            "refuse",
            "https://h.example",
            r"for how many GPUs it needs see https://h\.example/questions/\w{32}",
        ),
    ],
)
def test_a_line_without_a_number_says_where_it_is(mode: str, address: str | None, end: str) -> None:
    """The search goes on after the answer, and a page that is linked has the number."""
    made = replace(patient_parts(public_url=address), way_outs=EndlessSearches())
    with served(made) as client:
        answer = client.post(f"/v1/hooks/slurm/{mode}", json=a_job(TOO_LARGE)).json()

    assert re.search(f"^headroom: does not fit: [^;]*; {end}$", answer["sentence"])


def test_a_launch_of_skypilot_is_one_decision(door: Door) -> None:
    """Its client asks, and then its server, with the GPUs that the first answer gave it."""
    questions = [
        json.loads((SAMPLES / f"skypilot_0_14_{side}.json").read_text())
        for side in ("client", "server")
    ]

    [first, later] = [
        row for asked in questions for row in door.ask("skypilot/change", json.dumps(asked))[1]
    ]

    recent = RecentDecisions()
    assert (first.action, later.action) == ("change", "allow")
    assert (first.user_name, later.user_name) == (None, "root")
    assert first.digest == later.digest
    assert first.before is not None
    assert first.before[0] != first.digest
    assert recent.find_row(first, 0.0) == recent.find_row(later, 1.0)


@pytest.mark.parametrize("words", [FITS, TOO_LARGE, f"{FITS} --gpu T4", f"{TOO_LARGE} --gpu T4"])
def test_a_verdict_needs_no_replay(door: Door, words: str) -> None:
    """Where that could not turn it: its bytes are rougher then, and the line says so."""
    _, [estimated] = door.ask("slurm/refuse", a_job(words))
    written = list[HookDecision]()
    made = patient_parts(hook_replay=True)
    with served(replace(made, record_decision=written.append)) as client:
        client.post("/v1/hooks/slurm/refuse", json=a_job(words))

    [replayed] = written
    assert (estimated.verdict, estimated.action) == (replayed.verdict, replayed.action)
    assert replayed.needed_bytes is not None
    assert estimated.needed_bytes == pytest.approx(replayed.needed_bytes, rel=0.2)
    assert "about" not in replayed.sentence
    assert ("about" in estimated.sentence) == (estimated.needed_bytes != replayed.needed_bytes)


@pytest.mark.parametrize(("rule", "action"), [("open", "warn"), ("closed", "refuse")])
def test_a_fault_of_the_service_holds_up_no_job(
    monkeypatch: pytest.MonkeyPatch, rule: str, action: str
) -> None:
    """It is logged, and the job passes or is refused as the operator says."""
    monkeypatch.setattr(computing, "judge_fit", lambda *_words, **_named: 1 // 0)
    made = patient_parts(hook_fail=rule)
    task = {"resources": {"accelerators": "A100-80GB:1"}, "envs": {"HEADROOM_QUESTION": TOO_LARGE}}
    with served(made) as client:
        slurm = client.post("/v1/hooks/slurm/warn", json=a_job(TOO_LARGE))
        sky = client.post(
            "/v1/hooks/skypilot/refuse",
            json={"task": json.dumps(task), "skypilot_config": "{}", "request_name": "launch"},
        )

    answer = slurm.json()
    assert (answer["verdict"], answer["action"]) == ("unknown", action)
    assert "a fault of Headroom, of which its log says more under request" in answer["sentence"]
    assert sky.status_code == (200 if rule == "open" else 400)


def test_a_verdict_stands_though_its_search_fails() -> None:
    """A job that does not fit is refused, whatever happens to the number that it needs."""
    with served(replace(patient_parts(), way_outs=FaultySearches())) as client:
        answer = client.post("/v1/hooks/slurm/refuse", json=a_job(TOO_LARGE)).json()

    assert (answer["verdict"], answer["action"]) == ("does_not_fit", "refuse")
    assert answer["sentence"].endswith("; ask again for how many GPUs it needs")


def test_its_question_can_be_asked_again(door: Door) -> None:
    """It is a body of POST /v1/fit, and the same question has the same digest at every door."""
    _, [slurm] = door.ask("slurm", a_job(FITS))
    _, [dstack] = door.ask(
        "dstack/warn/apply_policies/on_run_apply",
        {
            "user": "ann",
            "project": "main",
            "spec": {
                "configuration": {
                    "type": "task",
                    "env": {"HEADROOM_QUESTION": f"{FITS} --gpu A100-SXM4-80GB"},
                    "resources": {"gpu": {"count": 1}},
                }
            },
        },
    )

    assert slurm.digest == dstack.digest
    assert (dstack.user_name, dstack.queue) == ("ann", "main")
    assert slurm.question is not None
    again = digest_question(decode(dict(slurm.question), FitRequest))
    assert again is not None
    assert again.digest == slurm.digest


def test_a_job_that_asks_nothing_is_not_written_down(door: Door) -> None:
    """A cluster has other jobs too, and nothing was decided about them."""
    _, rows = door.ask("slurm", {"options": {"mem": "4G"}, "script": "make\n"})

    assert rows == []


def test_what_cannot_be_answered_is_written_down(door: Door) -> None:
    """With its reason, and without a question or a link."""
    _, [row] = door.ask("slurm/refuse", {"options": {"gres": "gres/gpu:999999999"}})

    assert (row.verdict, row.action, row.digest, row.question) == ("unknown", "warn", None, None)
    assert "999,999,999" in row.sentence


@pytest.mark.parametrize(("mode", "action"), [("warn", "warn"), ("refuse", "refuse")])
def test_an_extender_writes_what_it_did(door: Door, mode: str, action: str) -> None:
    """Once for all nodes of a kind; where no node is left out, nothing was refused."""
    body = {"Pod": a_pod(), "Nodes": {"metadata": {}, "items": A100S}, "NodeNames": None}
    answer, [row] = door.ask(f"kube-scheduler/{mode}/filter", body)

    assert (row.door, row.mode, row.action) == ("kube_scheduler", mode, action)
    assert (row.queue, row.job_name) == ("ml", "tune-x")
    assert len(answer["Nodes"]["items"]) == (0 if action == "refuse" else 2)


def test_a_ranking_is_no_decision(door: Door) -> None:
    """What the filter decided is in the log already."""
    body = {"Pod": a_pod(), "Nodes": {"metadata": {}, "items": A100S}, "NodeNames": None}
    _, rows = door.ask("kube-scheduler/refuse/prioritize", body)

    assert rows == []


def test_a_question_of_a_long_config_has_no_digest() -> None:
    """What is not stored cannot be looked up."""
    config = {"model_type": "llama", "id2label": {str(n): "x" for n in range(MAX_QUESTION_BYTES)}}
    request = decode(FIT | {"model": {"hf_config": config}}, FitRequest)

    assert digest_question(request) is None


def test_the_list_refuses_what_it_does_not_know(door: Door) -> None:
    """A reader may not see whose jobs they are, and no digest is no path."""
    headers = {"x-api-key": "hr_1"}
    listed = door._client.get("/v1/hooks/decisions", headers=headers)  # noqa: SLF001 - of this file
    asked = door._client.get("/v1/hooks/questions/abc", headers=headers)  # noqa: SLF001

    assert listed.status_code == 403
    assert (asked.status_code, asked.json()["type"]) == (404, "not-found")


def test_a_dry_run_leaves_nothing(door: Door) -> None:
    """Kubernetes calls a webhook for it only where that has no side effect."""
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": {"headroom.dev/question": FITS}},
        "spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}]},
    }
    request = {"uid": "u", "operation": "CREATE", "object": document}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}

    _, stored = door.ask("kubernetes/warn", body)
    _, tried = door.ask("kubernetes/warn", {**body, "request": {**request, "dryRun": True}})

    assert (len(stored), tried) == (1, [])
