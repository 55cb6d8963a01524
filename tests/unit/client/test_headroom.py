"""What the client sends, and what it makes of answers."""

import json

import httpx
import pytest

from service.client.errors import (
    InvalidRequestError,
    NotAllowedError,
    OffendingValue,
    ProblemError,
    UnknownAnswerError,
)
from service.client.generated.models import FitRequest, LoraRequest, TrainRequest
from service.client.headroom import CHUNK, Headroom
from service.client.stored import Until
from tests.unit.client.builders import problem, scene, version


def test_a_refusal_carries_its_problem_document() -> None:
    """Type, title, detail, offending values, further members and the id that the server's log
    has.
    """
    offending = {
        "field": "workload.sequence_lenght",
        "message": "unknown",
        "nearest": "sequence_length",
    }
    found = scene(problem(422, "invalid-request", errors=[offending], modelled=["a"]))

    with pytest.raises(InvalidRequestError, match="invalid-request it is") as caught:
        found.headroom.fit("gpt2", workload={"task": "train"}, gpu="H200")
    error = caught.value
    assert (error.type, error.title, error.status, error.request_id) == (
        "invalid-request",
        "No",
        422,
        "r-1",
    )
    assert error.errors == (OffendingValue(**offending),)
    assert error.members["modelled"] == ["a"]


def test_a_refusal_of_a_proxy_is_told_by_its_status() -> None:
    """A page of HTML is no problem document."""
    found = scene(httpx.Response(401, text="<html>"))

    with pytest.raises(NotAllowedError, match="the server answered with 401"):
        found.headroom.version()


def test_generated_and_plain_objects_are_sent_alike() -> None:
    """What was not said is not sent; a misspelt word of a plain object is, so that the server can
    refuse it.
    """
    typed = TrainRequest(task="train", sequence_length=64, lora=LoraRequest(rank=8))
    plain = {"task": "train", "sequence_length": 64, "lora": {"rank": 8}}
    for workload in (typed, plain, {**plain, "sequenz": 1}):
        found = scene(problem(422, "invalid-request"))
        with pytest.raises(InvalidRequestError):
            found.headroom.fit("gpt2", workload=workload, gpu="H200")
        sent = json.loads(found.script.asked[0].content)

        assert sent == {
            "model": "gpt2",
            "gpu": "H200",
            "workload": workload if workload is not typed else plain,
        }


def test_how_many_takes_what_a_body_can_say() -> None:
    """A model that is brought along and lists go with it, and the key with the request."""
    found = scene(problem(422, "invalid-request"))
    workload = {"task": "train", "sequence_length": 64, "lora": {"target_modules": ["q_proj"]}}
    question = {"model": {"hub": "org/name"}, "gpu": {"memory_bytes": "80Gi"}}
    with pytest.raises(InvalidRequestError):
        found.headroom.how_many(**question, workload=workload, constraints={"max_gpus": 4})
    request = found.script.asked[0]

    sent = {**question, "workload": workload, "constraints": {"max_gpus": 4}}
    assert (request.method, json.loads(request.content)) == ("POST", sent)
    assert request.headers["authorization"] == "Bearer hr_k"


def test_many_questions_go_in_chunks_and_come_back_in_order() -> None:
    """Only as many are sent as one call takes, and a refused one is its error in its place."""
    refused = {
        "problem": {
            "type": "unknown-gpu",
            "title": "t",
            "status": 422,
            "detail": "d",
            "instance": "/",
        },
    }
    found = scene(
        *(httpx.Response(200, json={"items": [refused] * number}) for number in (CHUNK, 1))
    )
    workload = TrainRequest(task="train", sequence_length=64)
    questions = (
        FitRequest(model="gpt2", workload=workload, gpu=f"g{number}") for number in range(CHUNK + 1)
    )
    answers = list(found.headroom.fit_many(questions))
    sent = [json.loads(request.content)["items"] for request in found.script.asked]

    assert [len(items) for items in sent] == [CHUNK, 1]
    assert sent[1][0]["gpu"] == f"g{CHUNK}"
    assert {answer.type for answer in answers if isinstance(answer, ProblemError)} == {
        "unknown-gpu"
    }
    assert len(answers) == CHUNK + 1


def test_lists_are_read_page_by_page() -> None:
    """The next page is asked for when its first item is needed."""
    pages: tuple[dict[str, object], ...] = (
        {"items": [], "next_cursor": "c1"},
        {"items": [], "next_cursor": None},
    )
    found = scene(*(httpx.Response(200, json=page) for page in pages))

    assert list(found.headroom.clusters.list()) == []
    assert [request.url.params.get("cursor") for request in found.script.asked] == [None, "c1"]


def test_an_answer_of_another_version_is_told() -> None:
    """An answer without what it must have is no KeyError somewhere."""
    found = scene(httpx.Response(200, json={"name": "gpu-headroom"}))

    with pytest.raises(UnknownAnswerError, match="GET /version"):
        found.headroom.version()


def test_the_environment_names_the_server_and_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """HEADROOM_URL and HEADROOM_API_KEY stand in for what is not said."""
    monkeypatch.setenv("HEADROOM_URL", "http://other.test:1")
    monkeypatch.setenv("HEADROOM_API_KEY", "hr_other")
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return version()

    with Headroom(http=httpx.MockTransport(answer)) as headroom:
        headroom.version()

    assert (asked[0].url.host, asked[0].headers["authorization"]) == (
        "other.test",
        "Bearer hr_other",
    )


@pytest.mark.parametrize("address", ["headroom", "ftp://headroom", "http://:1", "http://[x"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    """At once, and with what would be right."""
    with pytest.raises(ValueError, match="must be like http"):
        Headroom(address)


def test_a_promise_has_exactly_one_end() -> None:
    """No end, or two, are refused before anything is sent."""
    with pytest.raises(ValueError, match="exactly one"):
        Until()


def test_a_dry_run_is_an_answer_and_no_measurement() -> None:
    """It is asked for by a name of its own: what measures nothing cannot be followed."""
    question = {
        "model": "llama-3.2-1b",
        "device": "trace",
        "workload": {"task": "train", "sequence_length": 512},
    }
    run = {
        "num_layers": 16,
        "micro_batch_size": 1,
        "sequence_length": 512,
        "output_tokens": 0,
        "why": "all",
        "expected_s": 1.5,
    }
    answer = {
        "dry_run": True,
        "runs": [run],
        "expected_s": 1.5,
        "notes": [],
        "host": {},
        "worker": None,
        "told_at": None,
    }
    asked = scene(httpx.Response(200, json={**answer, "problem": None}))
    found = asked.headroom.dry_run(question)

    assert [one.num_layers for one in found.runs] == [16]
    assert json.loads(asked.script.asked[0].content) == {**question, "dry_run": True}
    with pytest.raises(ValueError, match="ask dry_run"):
        asked.headroom.measure({**question, "dry_run": True})
