"""Models on a hub over HTTP: off by default, pinned to a commit, the token in no answer or row."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest
from litestar.testing import TestClient
from msgspec import convert

from service.api.resources.resolving import read_content
from service.contract.schemas.models import ModelSource
from service.contract.to_answer.models import build_hub
from service.runtime.settings import Settings
from tests.unit.api.builders import parts, served
from tests.unit.usecases.hub.fake_hub import COMMIT, CONFIG, TOKEN, FakeHub, redirect

TRAIN = {"task": "train", "sequence_length": 64}
HUB = {"hub": "org/name"}
SECRET = {"hub-token": TOKEN}
DRAFTED = {
    "task": "serve",
    "engine": "vllm",
    "num_sequences": 2,
    "prompt_tokens": 64,
    "speculative": {"num_tokens": 4, "draft": HUB},
}


@contextmanager
def serve(fake: FakeHub) -> Iterator[TestClient[Any]]:
    """Serve the API with a hub behind it."""
    with served(replace(parts(), hub=fake.make())) as client:
        yield client


def fit(client: TestClient[Any], model: dict[str, Any], **headers: str) -> Any:  # noqa: ANN401 - a response
    """Ask a small question."""
    body = {"model": model, "workload": TRAIN, "gpu": "L4"}
    return client.post("/v1/fit", json=body, headers={**headers})


def test_a_server_asks_no_hub_by_itself() -> None:
    """Without the operator's word the question is refused, with what would be right."""
    with served() as client:
        answer = fit(client, HUB)

    assert (answer.status_code, answer.json()["type"]) == (422, "hub-off")
    assert "HEADROOM_HUB=true" in answer.json()["detail"]
    assert Settings().hub is False


def test_an_answer_names_the_commit() -> None:
    """It is the one to the config of that commit, whose files agree with it."""
    with serve(FakeHub()) as client:
        answer = fit(client, HUB).json()
        plain = fit(client, {"hf_config": CONFIG}).json()

    assert answer["assumptions"][0] == f"model read from org/name at {COMMIT}"
    assert answer["per_gpu"] == plain["per_gpu"]
    assert answer["assumptions"][1:] == plain["assumptions"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/fit/batch", {"items": [{"model": HUB, "workload": TRAIN, "gpu": "L4"}]}),
        ("/v1/plans", {"model": HUB, "workload": TRAIN, "gpus": ["L4"]}),
        (
            "/v1/ceilings",
            {"model": HUB, "workload": TRAIN, "gpu": "L4", "maximize": "micro_batch_size"},
        ),
        ("/v1/how-many", {"model": HUB, "workload": TRAIN, "gpu": "L4"}),
        (
            "/v1/explain",
            {
                "content": "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate "
                "2.00 GiB",
                "question": {"model": HUB, "workload": TRAIN, "gpu": "L4"},
            },
        ),
        ("/v1/launches/import", {"model": HUB, "launcher": "trl_sft", "arguments": {"packing": 0}}),
        *(
            (path, {"model": {"hf_config": CONFIG}, "workload": DRAFTED, **words})
            for path, words in (
                ("/v1/fit", {"gpu": "L4"}),
                ("/v1/how-many", {"gpu": "L4"}),
                ("/v1/plans", {"gpus": ["L4"]}),
                ("/v1/ceilings", {"gpu": "L4", "maximize": "num_sequences"}),
            )
        ),
        (
            "/v1/fit/batch",
            {"items": [{"model": {"hf_config": CONFIG}, "workload": DRAFTED, "gpu": "L4"}]},
        ),
    ],
)
def test_every_question_takes_a_hub(path: str, body: dict[str, Any]) -> None:
    """Each sends the caller's token to the hub, and to nobody else."""
    fake = FakeHub(respond=redirect("cdn-lfs.hf.co"))

    with serve(fake) as client:
        answer = client.post(path, json=body, headers=SECRET)

    assert answer.status_code == 200, answer.text
    assert "problem" not in answer.text
    assert fake.tokens == [f"Bearer {TOKEN}"] * 3 + [None]


def test_a_query_names_a_hub_too() -> None:
    """It is asked as by a body, and refused by the names that a query has."""
    fake, query = FakeHub(), {"task": "train", "sequence_length": "64", "gpu": "L4"}

    with serve(fake) as client, served() as off:
        answer = client.get("/v1/how-many", params=query | HUB, headers=SECRET)
        posted = client.post("/v1/how-many", json={"model": HUB, "gpu": "L4", "workload": TRAIN})
        twice = client.get("/v1/how-many", params=query | HUB | {"model": "gpt2"})
        none = client.get("/v1/how-many", params=query | {"revision": "main"})
        refused = off.get("/v1/how-many", params=query | HUB)

    assert answer.json()["assumptions"][0] == f"model read from org/name at {COMMIT}"
    assert answer.json()["candidates"] == posted.json()["candidates"]
    assert set(fake.tokens[:3]) == {f"Bearer {TOKEN}"}
    for one, field in ((twice, "model"), (none, "model"), (refused, "hub")):
        assert (one.status_code, one.json()["errors"][0]["field"]) == (422, field), one.text


def test_a_draft_on_a_hub_is_the_one_that_is_brought() -> None:
    """It is told where it was read; a server that asks no hub refuses it at its field."""
    brought = {**DRAFTED, "speculative": {"num_tokens": 4, "draft": {"hf_config": CONFIG}}}
    bodies = [
        {"model": {"hf_config": CONFIG}, "gpu": "L4", "workload": workload}
        for workload in (DRAFTED, brought)
    ]

    with serve(FakeHub()) as client, served() as off:
        answer, same = (client.post("/v1/fit", json=body).json() for body in bodies)
        refused = off.post("/v1/fit", json=bodies[0])

    assert f"draft model read from org/name at {COMMIT}" in answer["assumptions"]
    assert answer["per_gpu"] == same["per_gpu"]
    assert refused.json()["type"] == "hub-off"
    assert refused.json()["errors"][0]["field"] == "workload.speculative.draft.hub"


def test_the_token_is_in_no_answer_no_log_and_no_row(caplog: pytest.LogCaptureFixture) -> None:
    """Neither where the model is read nor where it is refused."""
    caplog.set_level(logging.DEBUG)
    fake, refusing = FakeHub(), FakeHub(respond=lambda _request: httpx.Response(403, text=TOKEN))
    deps = replace(parts(), hub=fake.make())
    scope: Any = {"headers": [(b"hub-token", TOKEN.encode())]}

    with serve(fake) as client, serve(refusing) as refuser:
        answers = [fit(one, HUB, **SECRET) for one in (client, refuser)]
    content = read_content(deps, convert(HUB, ModelSource), scope)

    assert [answer.status_code for answer in answers] == [200, 422]
    assert fake.tokens[0] == f"Bearer {TOKEN}"
    texts = [*(answer.text for answer in answers), repr(content), caplog.text]
    texts += [str(record.__dict__) for record in caplog.records]
    assert not any(TOKEN in text for text in texts)


def test_a_stored_model_keeps_its_commit() -> None:
    """What is stored is the config, and where it was read."""
    deps = replace(parts(), hub=FakeHub().make())
    scope: Any = {"headers": []}

    content = read_content(deps, convert(HUB, ModelSource), scope)

    assert content.source["hf_config"] == CONFIG
    shown = build_hub(content.source["hub"])
    assert shown is not None
    assert (shown.id, shown.commit, shown.file) == ("org/name", COMMIT, None)
    assert build_hub(None) is None


def test_answers_are_not_kept_for_other_callers() -> None:
    """A question in the same bytes from somebody without a token is asked of the hub again."""
    fake = FakeHub()
    with serve(fake) as client:
        for _ in range(3):
            assert fit(client, HUB, **SECRET).status_code == 200
        fake.respond = lambda _request: httpx.Response(401)

        answer = fit(client, HUB)

    assert (answer.status_code, answer.json()["type"]) == (422, "hub-refused")
    assert answer.json()["hub_status"] == 401


def test_a_slow_hub_holds_up_nobody_else() -> None:
    """While a model is being read, other questions are answered: the loop does not wait."""
    entered, leave = threading.Event(), threading.Event()

    def wait(_request: httpx.Request) -> None:
        entered.set()
        assert leave.wait(60)

    answers: list[Any] = []
    with serve(FakeHub(respond=wait)) as client:
        slow = threading.Thread(target=lambda: answers.append(fit(client, HUB)))
        slow.start()
        assert entered.wait(60)
        quick = fit(client, {"hf_config": CONFIG})
        still_waits = slow.is_alive()
        leave.set()
        slow.join(60)

    assert (quick.status_code, still_waits) == (200, True)
    assert answers[0].status_code == 200


@pytest.mark.parametrize(
    ("model", "field"),
    [
        ({"hub": "org/name/more"}, "model.hub"),
        ({"hub": "../etc"}, "model.hub"),
        ({"hub": "org/.."}, "model.hub"),
        ({"hub": "https://evil.example/x"}, "model.hub"),
        ({"hub": "org/name", "revision": "?x"}, "model.revision"),
        ({"hub": "org/name", "revision": "a@b"}, "model.revision"),
        ({"num_parameters": 7, "revision": "main"}, "model.revision"),
        ({"num_parameters": 7, "file": "a.gguf"}, "model.file"),
        ({"hub": "org/name", "hf_config": CONFIG}, "model"),
        ({"hub": "org/name", "safetensors_index": {}}, "model.safetensors_index"),
    ],
)
def test_what_is_no_id_never_reaches_the_hub(model: dict[str, Any], field: str) -> None:
    """Ids, revisions and files are names, and go beside each other."""
    fake = FakeHub()

    with serve(fake) as client:
        answer = fit(client, model)

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == field
    assert fake.requests == []


@pytest.mark.parametrize("token", ["two words", "x" * 513, "a\tb"])
@pytest.mark.parametrize("model", [HUB, {"name": "llama-2-7b"}], ids=["hub", "catalogue"])
def test_a_token_that_is_none_is_refused_unread(model: dict[str, Any], token: str) -> None:
    """The refusal does not repeat it, whether a hub is asked or not."""
    fake = FakeHub()

    with serve(fake) as client:
        answer = fit(client, model, **{"hub-token": token})

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "Hub-Token"
    assert token not in answer.text
    assert fake.requests == []


def test_a_hub_that_is_away_is_temporary() -> None:
    """The problem says so by its status."""
    with serve(FakeHub(respond=lambda _request: httpx.Response(502))) as client:
        answer = fit(client, HUB)

    assert (answer.status_code, answer.json()["type"]) == (503, "hub-unavailable")


def test_files_that_differ_from_the_tree_are_said() -> None:
    """The header of the hub's file is held against its config."""
    fake = FakeHub()
    fake.files["config.json"] = fake.files["config.json"].replace(
        b'"num_hidden_layers": 2', b'"num_hidden_layers": 3'
    )

    with serve(fake) as client:
        lines = fit(client, HUB).json()["assumptions"]

    assert lines[1].startswith("the checkpoint holds ")
