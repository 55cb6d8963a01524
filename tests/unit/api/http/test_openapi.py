"""The OpenAPI document: complete, strict, and true to what is sent."""

from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from litestar.testing import TestClient

from tests.unit.api.builders import served

Json = dict[str, Any]
METHODS = {"get", "patch", "post", "put", "delete"}
FOREIGN = "/v1/hooks/"
"""Paths whose bodies are other programs' documents, which grow with their versions."""
PLACES = {"name": "a", "id": "1", "mode": "warn", "policy": "on_run_apply", "digest": "0" * 32}
RESOURCES = {
    *(f"/v1/field-data{end}" for end in ("", "/approve", "/withdraw")),
    *(f"/v1/hooks/{end}" for end in ("decisions", "questions", "questions/{digest}")),
    "/v1/models",
    "/v1/models/{name}",
    "/v1/models/{organization}/{name}",
    "/v1/families",
    "/v1/gpus",
    "/v1/formats",
    "/v1/formats/{name}",
    "/v1/pipelines",
    "/v1/pipelines/fit",
    "/v1/clusters",
    "/v1/clusters/{name}",
    "/v1/clusters/{name}/import",
    "/v1/clusters/{name}/reservations",
    "/v1/clusters/{name}/reservations/{id}",
    "/v1/fit",
    "/v1/fit/batch",
    "/v1/how-many",
    "/v1/plans",
    "/v1/ceilings",
    "/v1/launches/import",
    "/v1/explain",
    *(f"/v1/hooks/{name}{end}" for name in ("kubernetes", "slurm") for end in ("", "/{mode}")),
    *(f"/v1/hooks/{end}" for end in ("skypilot/{mode}", "dstack/{mode}/apply_policies/{policy}")),
    "/v1/hooks/kueue/{mode}",
    *(f"/v1/hooks/kube-scheduler/{{mode}}/{verb}" for verb in ("filter", "prioritize")),
    *(f"/v1/hooks/volcano/{{mode}}/{v}" for v in ("jobEnqueueable", "predicate", "prioritize")),
    "/v1/measurements",
    "/v1/measurements/import",
    "/v1/measurements/{id}",
    "/v1/measurements/{id}/artifacts/{name}",
    "/v1/measurements/{id}/events",
    "/v1/measurements/{id}/samples",
    "/v1/measurements/{id}/withdraw",
    "/v1/workers",
    "/v1/calibrations",
    "/v1/calibrations/pools",
    "/v1/calibrations/{id}/remeasure",
    "/v1/accuracy",
    "/v1/keys",
    "/v1/keys/{id}",
    "/v1/audit",
    "/healthz",
    "/readyz",
    "/metrics",
    "/version",
}


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes for the tests of this file."""
    with served() as client:
        yield client


@pytest.fixture(scope="module", name="document")
def read(client: TestClient[Any]) -> Json:
    """Return the document as it is sent."""
    return dict(client.get("/docs/openapi.json").json())


def operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    """Yield path, method and operation."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def references(value: object) -> Iterator[str]:
    """Yield every name that is referred to."""
    match value:
        case dict():
            if isinstance(target := value.get("$ref"), str):
                yield target.rpartition("/")[2]
            for item in value.values():
                yield from references(item)
        case list():
            for item in value:
                yield from references(item)
        case _:
            return


def test_every_resource_is_there(document: Json) -> None:
    """All of the contract is documented, as OpenAPI 3.1."""
    assert document["openapi"] == "3.1.0"
    assert set(document["paths"]) == RESOURCES


def test_every_operation_is_described(document: Json) -> None:
    """Each has a summary that is a sentence and an id of its own."""
    ids = [operation["operationId"] for _, _, operation in operations(document)]

    tags = {tag["name"] for tag in document["tags"]}

    assert len(ids) == len(set(ids))
    assert {tag for _, _, operation in operations(document) for tag in operation["tags"]} == tags
    for path, method, operation in operations(document):
        assert method in METHODS
        assert operation["summary"].endswith("."), path


def test_references_lead_somewhere(document: Json) -> None:
    """No schema is missing and none is left over."""
    assert set(references(document)) == set(document["components"]["schemas"])


def test_requests_are_strict_all_the_way_down(document: Json) -> None:
    """Every object that a request may hold refuses unknown fields, a config.json excepted."""
    schemas = document["components"]["schemas"]
    pending = [
        name
        for path, _, operation in operations(document)
        for name in references(operation.get("requestBody"))
        if not path.startswith(FOREIGN)
    ]
    seen: set[str] = set()
    while pending:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            pending += references(schemas[name])

    assert {
        "FitRequest",
        "TrainRequest",
        "ServeRequest",
        "LoraRequest",
        "PoolRequest",
        "NodeRequest",
    } <= seen
    for name in seen:
        if schemas[name].get("type") == "object":
            assert schemas[name]["additionalProperties"] is False, name


def test_a_models_source_is_what_is_accepted(document: Json) -> None:
    """A config may come with the index of its files: the document does not forbid what is read."""
    components = document["components"]
    source = components["schemas"]["ModelSource"]
    schema = jsonschema_rs.validator_for({**source, "components": components})
    accepted = (
        ["hf_config"],
        ["architecture"],
        ["hf_config", "safetensors_index"],
        ["hf_config", "safetensors_header"],
    )
    refused: tuple[list[str], ...] = (
        [],
        ["safetensors_index"],
        ["hf_config", "architecture"],
        ["hf_config", "safetensors_index", "safetensors_header"],
    )

    assert all(schema.is_valid({name: {} for name in names}) for names in accepted)
    assert not any(schema.is_valid({name: {} for name in names}) for names in refused)


def test_problems_are_documented_as_they_are_sent(document: Json) -> None:
    """Every error status of every operation has the one body that is sent, except the answer of
    /readyz.
    """
    for path, _, operation in operations(document):
        for status, reply in operation["responses"].items():
            if status >= "400" and (path, status) != ("/readyz", "503"):
                assert reply["content"] == {
                    "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
                }, (
                    path,
                    status,
                )


def test_examples_are_answered(client: TestClient[Any], document: Json) -> None:
    """The example of a question that needs no database is a question that works."""
    for path in ("/v1/fit", "/v1/fit/batch"):
        example = document["paths"][path]["post"]["requestBody"]["content"]["application/json"][
            "example"
        ]

        assert client.post(path, json=example).status_code == 200


def test_bodies_are_read_by_every_operation_that_documents_one(
    client: TestClient[Any], document: Json
) -> None:
    """An unknown field is refused with 422 wherever a body is documented."""
    for path, method, operation in operations(document):
        if "requestBody" in operation:
            answer = client.request(
                method,
                path.format(**PLACES),
                json={"no_such_field": 1},
            )

            assert answer.status_code == 422, path
            if not path.startswith(FOREIGN):
                assert answer.json()["errors"][0]["field"] == "no_such_field"
            assert "422" in operation["responses"]


def test_unknown_parameters_are_refused_by_every_operation_that_documents_some(
    client: TestClient[Any], document: Json
) -> None:
    """A misspelt query parameter is refused with 422 wherever parameters are documented."""
    lists = [
        path
        for path, method, operation in operations(document)
        if method == "get"
        and any(parameter["in"] == "query" for parameter in operation["parameters"])
    ]

    assert "/v1/measurements" in lists
    for path in lists:
        assert client.get(path, params={"no_such_parameter": "1"}).status_code == 422, path


def test_unknown_parameters_are_refused_by_every_operation_that_documents_none(
    client: TestClient[Any], document: Json
) -> None:
    """What takes no parameters says so, before it looks at the path or the body; probes may add
    theirs to /healthz.
    """
    silent = [
        (path, method, operation)
        for path, method, operation in operations(document)
        if path.startswith("/v1/")
        and not any(parameter["in"] == "query" for parameter in operation["parameters"])
    ]

    assert ("/v1/fit", "post") in {(path, method) for path, method, _ in silent}
    for path, method, operation in silent:
        answer = client.request(method, path.format(**PLACES), params={"x": "1"}, json={})

        assert answer.status_code == 422, path
        assert "takes no parameters" in answer.json()["errors"][0]["message"]
        assert "422" in operation["responses"]
    assert client.get("/healthz", params={"x": "1"}).status_code == 200


def test_unknown_resources_are_not_found(client: TestClient[Any]) -> None:
    """What nobody has built is absent, not half there."""
    answer = client.post("/v1/forecasts", json={})

    assert (answer.status_code, answer.json()["type"]) == (404, "not-found")


def test_changes_need_more_than_a_readers_key(document: Json) -> None:
    """Every operation that is no question asks for a scope which a dashboard's key does not
    have.
    """
    questions = {
        "/v1/fit",
        "/v1/how-many",
        "/v1/ceilings",
        "/v1/explain",
        "/v1/launches/import",
        "/v1/pipelines/fit",
        "/v1/formats/{name}",
    }
    for path, method, operation in operations(document):
        if method != "get" and path not in questions and not path.startswith(FOREIGN):
            assert operation["security"][0]["bearer"] != ["read"], (method, path)


def test_the_document_is_made_for_whoever_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, and by no start: it is a third of what a process does before its first answer."""
    made: list[str] = []

    def build(_app: object, *, version: str) -> Json:
        made.append(version)
        return {"openapi": "3.1.0"}

    monkeypatch.setattr("service.api.application.build_document", build)
    with served() as client:
        client.get("/healthz")
        before = list(made)
        answers = [client.get("/docs/openapi.json").json() for _ in range(2)]

    assert (before, len(made)) == ([], 1)
    assert answers == [{"openapi": "3.1.0"}] * 2
