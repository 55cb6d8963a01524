"""Every refusal is a problem document, whoever refused."""

from types import SimpleNamespace
from typing import Any

import pytest
from litestar import Litestar, get, post
from litestar.params import FromPath, RawBody
from litestar.testing import TestClient
from litestar.types import ASGIApp

from service.api.http.problems import HANDLERS, MEDIA_TYPE
from service.api.http.responses import json_response
from service.base import errors
from service.base.errors import ModelNotFoundError, ServiceError, UnavailableError
from service.estimator.values.errors import (
    InvalidConfigError,
    InvalidInputError,
    NotModelledError,
    UnknownModelTypeError,
)

RAISED: dict[str, Exception] = {
    "service": ModelNotFoundError("there is no model 'x'", name="x"),
    "unavailable": UnavailableError("the database does not answer"),
    "input": InvalidInputError("micro_batch_size is 0", field="workload.micro_batch_size"),
    "config": InvalidConfigError("config lacks 'hidden_size'", field="hidden_size"),
    "unknown": UnknownModelTypeError("lama", ("llama", "gpt2")),
    "later": NotModelledError(
        "optimizer muon", field="workload.optimizer", modelled=("adamw", "sgd")
    ),
    "memory": MemoryError(),
    "bug": RuntimeError("postgresql://user:secret@host/db"),
}


@get("/raise/{name:str}", sync_to_thread=False)
def refuse(name: FromPath[str]) -> ASGIApp:
    """Raise what the path names."""
    raise RAISED[name]


@post("/body", sync_to_thread=False)
def measure(body: RawBody) -> ASGIApp:
    """Answer with the length of the body."""
    return json_response(len(body))


@pytest.fixture(scope="module", name="client")
def start() -> Any:  # noqa: ANN401 - a generator of a client
    """Serve the two handlers."""
    app = Litestar(
        [refuse, measure],
        exception_handlers=HANDLERS,
        openapi_config=None,
        request_max_body_size=1000,
    )
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.mark.parametrize(
    ("name", "status", "slug"),
    [
        ("service", 404, "model-not-found"),
        ("unavailable", 503, "unavailable"),
        ("input", 422, "invalid-request"),
        ("config", 422, "invalid-model-config"),
        ("unknown", 422, "unknown-model-type"),
        ("later", 422, "not-modelled"),
        ("memory", 503, "out-of-memory"),
        ("bug", 500, "internal-error"),
    ],
)
def test_every_refusal_has_the_same_shape(
    client: TestClient[Any], name: str, status: int, slug: str
) -> None:
    """Status, media type and members are those of RFC 9457."""
    answer = client.get(f"/raise/{name}")
    problem = answer.json()

    assert answer.status_code == problem["status"] == status
    assert answer.headers["content-type"] == MEDIA_TYPE
    assert problem["type"] == slug
    assert problem["instance"] == f"/raise/{name}"
    assert problem["title"]
    assert problem["detail"]


def test_estimator_errors_name_their_field_and_facts(client: TestClient[Any]) -> None:
    """The dotted path, what is modelled and which model types are known reach the client."""
    assert client.get("/raise/input").json()["errors"] == [
        {"field": "workload.micro_batch_size", "message": "micro_batch_size is 0"}
    ]
    assert client.get("/raise/later").json()["modelled"] == ["adamw", "sgd"]
    unknown = client.get("/raise/unknown").json()
    assert unknown["known"] == ["gpt2", "llama"]
    assert "Did you mean 'llama'?" in unknown["detail"]


def test_unavailable_says_when_to_try_again(client: TestClient[Any]) -> None:
    """A 503 carries Retry-After."""
    assert int(client.get("/raise/unavailable").headers["retry-after"]) >= 1


def test_a_process_without_memory_forgets_what_it_kept(client: TestClient[Any]) -> None:
    """And says when to try again."""
    forgotten: list[bool] = []
    client.app.state.parts = SimpleNamespace(forget=lambda: forgotten.append(True))

    answer = client.get("/raise/memory")

    assert forgotten == [True]
    assert int(answer.headers["retry-after"]) >= 1
    assert "got no memory for this answer" in answer.json()["detail"]


def test_faults_say_nothing_of_the_inside(client: TestClient[Any]) -> None:
    """The text of an unexpected exception stays in the log."""
    assert "secret" not in client.get("/raise/bug").text


def test_unknown_path_and_method(client: TestClient[Any]) -> None:
    """The router's refusals are problem documents too, and a 405 names what is allowed."""
    missing, wrong = client.get("/nowhere"), client.delete("/raise/bug")

    assert (missing.status_code, missing.json()["type"]) == (404, "not-found")
    assert (wrong.status_code, wrong.json()["type"]) == (405, "method-not-allowed")
    assert {"GET", "HEAD"} <= set(wrong.headers["allow"].split(", "))


def test_large_bodies_are_413(client: TestClient[Any]) -> None:
    """A body over the limit is refused, declared or chunked."""
    for content in (b"x" * 1001, iter([b"x" * 600, b"x" * 600])):
        answer = client.post("/body", content=content)

        assert (answer.status_code, answer.json()["type"]) == (413, "body-too-large")


def test_slugs_are_stable_and_unique() -> None:
    """No two classes of the tree share a type."""
    tree = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, ServiceError)
    ]
    slugs = [kind.type for kind in tree]

    assert len(tree) > 20
    assert len(slugs) == len(set(slugs))
