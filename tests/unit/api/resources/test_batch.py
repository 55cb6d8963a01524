"""POST /v1/fit/batch without a database: in order, nothing lost, each item as POST /v1/fit would
answer it.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from litestar.testing import TestClient

from service.api.resources.batch import MAX_BODY_BYTES, MAX_ITEM_VALUES
from service.contract.schemas.batch import MAX_ITEMS
from service.usecases.stored_specs.spec_cache import NamedModel, SpecCache, load_catalogue_model
from tests.unit.api.builders import FIT, changed, parts, served

JSON = {"content-type": "application/json"}
SERVE = {"task": "serve", "engine": "vllm", "num_sequences": 8, "prompt_tokens": 512}
GOOD = [
    FIT,
    FIT | {"layout": {"data_parallel": 8, "zero_stage": 3}},
    FIT | {"workload": SERVE},
    FIT | {"model": {"num_parameters": 7_000_000_000}, "gpu": {"memory_bytes": "24Gi"}},
    # transformers unpacks its mxfp4 to train it.
    FIT | {"model": "gpt-oss-20b", "gpu": "H200"},
]
BAD: list[Any] = [
    {},
    7,
    None,
    FIT | {"mode": "llama-2-7b"},
    FIT | {"model": "llama-2-7c"},
    FIT | {"gpu": "A100"},
    FIT | {"gpu": {"memory_bytes": "80GB"}},
    changed("workload.micro_batch_size", "5"),
    changed("workload.task", "swim"),
    changed("workload.framework", "megatron", FIT | {"model": "bert-base"}),
    changed("layout.zero_stage", 9),
    changed("layout.tensor_parallel", 3),
    FIT | {"model": {"hf_config": {"model_type": "lama"}}},
    FIT | {"model": {"hf_config": {"model_type": "llama", "x": "\0"}}},
    FIT | {"layout": None},
]


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes for the tests of this file."""
    with served() as client:
        yield client


def _answers(client: TestClient[Any], items: list[Any], **more: object) -> list[dict[str, Any]]:
    found = client.post("/v1/fit/batch", json={"items": items, **more})
    assert found.status_code == 200, found.text
    answers: list[dict[str, Any]] = found.json()["items"]
    return answers


def test_full_answers_are_those_of_single_fits(client: TestClient[Any]) -> None:
    """Every field of every answer, in the order of the questions."""
    singles = [client.post("/v1/fit", json=item).json() for item in GOOD]

    assert _answers(client, GOOD, detail="full") == singles


def test_numbers_are_the_default_and_leave_out_what_explains(client: TestClient[Any]) -> None:
    """Bytes that no replay changes are those of a single fit; lists that explain are empty."""
    single, found = client.post("/v1/fit", json=FIT).json(), _answers(client, [FIT])[0]

    assert set(found) == set(single)
    assert set(found["per_gpu"]) == set(single["per_gpu"])
    assert found["per_gpu"]["allocated_bytes"] == single["per_gpu"]["allocated_bytes"]
    assert found["per_gpu"]["steady_bytes"] == single["per_gpu"]["steady_bytes"]
    assert (found["verdict"], found["assumptions"]) == (single["verdict"], single["assumptions"])
    assert found["per_gpu"]["components"] == found["rules_of_thumb"] == found["remedies"] == []
    assert found["throughput"] is None


@pytest.mark.parametrize("detail", ["numbers", "full"])
def test_a_bad_item_has_the_problem_of_a_single_fit_in_its_place(
    client: TestClient[Any], detail: str
) -> None:
    """Good and bad ones in turn: no answer is lost, and each refusal says what POST /v1/fit says,
    and of which item.
    """
    items = [item for bad in BAD for item in (FIT, bad)]
    answers = _answers(client, items, detail=detail)

    assert len(answers) == len(items)
    assert {answer["verdict"] for answer in answers[::2]} == {
        client.post("/v1/fit", json=FIT).json()["verdict"]
    }
    for index, (bad, answer) in enumerate(zip(BAD, answers[1::2], strict=True)):
        single = client.post("/v1/fit", content=json.dumps(bad), headers=JSON).json()
        assert answer == {"problem": single | {"instance": f"/v1/fit/batch#/items/{2 * index + 1}"}}


def test_equal_bad_items_each_say_where_they_stand(client: TestClient[Any]) -> None:
    """What is worked out once is still said of each."""
    answers = _answers(client, [BAD[5], FIT, BAD[5]])

    assert [answers[index]["problem"]["instance"] for index in (0, 2)] == [
        f"/v1/fit/batch#/items/{index}" for index in (0, 2)
    ]


def test_equal_items_are_worked_out_once_and_counted_each(client: TestClient[Any]) -> None:
    """A thousand times the same question is a thousand answers, and a thousand fits in the
    metrics.
    """
    with served() as fresh:
        answers = _answers(fresh, [FIT] * 1000)
        counted = fresh.get("/metrics").text

    assert answers == _answers(client, [FIT]) * 1000
    verdict = answers[0]["verdict"]
    assert f'headroom_fits_total{{verdict="{verdict}"}} 1000.0' in counted


def test_full_answers_are_kept_from_batch_to_batch_and_for_single_fits() -> None:
    """What does not fit was searched for remedies once: nobody searches again, in a batch or
    alone.
    """
    body = json.dumps(FIT, separators=(",", ":"))
    with served() as fresh:
        batch = f'{{"items":[{body}],"detail":"full"}}'
        answers = [
            fresh.post("/v1/fit/batch", content=batch, headers=JSON).json()["items"][0]
            for _ in range(2)
        ]
        single = fresh.post("/v1/fit", content=body, headers=JSON).json()
        counted = fresh.get("/metrics").text

    assert single["verdict"] != "fits"
    assert answers == [single] * 2
    assert "headroom_cached_fits_total 1.0" in counted


def test_names_are_resolved_once_per_batch() -> None:
    """A stored model is asked of the database once, however many items name it."""
    asked: list[str] = []
    stored = load_catalogue_model("gpt2")
    assert stored is not None

    def read_stored(name: str) -> Any:  # noqa: ANN401 - None, as the database would say of a name that it has not
        asked.append(name)
        return replace(stored, name=name, version="1") if name == "mine" else None

    specs = SpecCache(
        read_catalogue=load_catalogue_model,
        read_stored=read_stored,
        read_versions=lambda _: {},
        known_names=lambda: ["gpt2"],
    )
    with served(replace(parts(), specs=specs)) as client:
        items = [
            {"model": "mine", "workload": {"task": "train", "sequence_length": length}, "gpu": "L4"}
            for length in range(1, 200)
        ]
        answers = _answers(client, items)

    assert asked == ["mine"]
    assert all("verdict" in answer for answer in answers)


def test_a_fault_of_ours_loses_one_answer_only() -> None:
    """What nobody expected is a 500 in its place; the others are answered."""

    def read_catalogue(name: str) -> NamedModel | None:
        if name == "broken":
            message = "boom"
            raise ZeroDivisionError(message)
        return load_catalogue_model(name)

    specs = SpecCache(
        read_catalogue=read_catalogue,
        read_stored=lambda _: None,
        read_versions=lambda _: {},
        known_names=lambda: ["gpt2"],
    )
    with served(replace(parts(), specs=specs)) as client:
        answers = _answers(client, [FIT, FIT | {"model": "broken"}, FIT])

    assert answers[1]["problem"]["type"] == "internal-error"
    assert answers[1]["problem"]["status"] == 500
    assert answers[0] == answers[2]
    assert "verdict" in answers[0]


def test_a_batch_may_be_empty_and_has_an_end(client: TestClient[Any]) -> None:
    """No questions have no answers; more than ten thousand are refused as a whole."""
    refused = client.post("/v1/fit/batch", json={"items": [1] * (MAX_ITEMS + 1)})

    assert _answers(client, []) == []
    assert refused.status_code == 422
    assert "10000" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"item": []}, 422, "item"),
        ({}, 422, "items"),
        ({"items": {}}, 422, "items"),
        ({"items": [], "detail": "number"}, 422, "detail"),
    ],
)
def test_what_is_around_the_items_is_as_strict_as_ever(
    client: TestClient[Any], body: dict[str, Any], status: int, field: str
) -> None:
    """Unknown fields, missing ones and unknown words are refused, with the path."""
    found = client.post("/v1/fit/batch", json=body)

    assert found.status_code == status
    assert found.json()["errors"][0]["field"] == field


def test_broken_json_is_no_batch(client: TestClient[Any]) -> None:
    """A body that no parser reads is a 400, wherever it breaks."""
    text = json.dumps({"items": [FIT, FIT]})[:-5]

    assert client.post("/v1/fit/batch", content=text, headers=JSON).status_code == 400


def test_a_batch_may_be_longer_than_other_bodies(client: TestClient[Any]) -> None:
    """Here 32 MiB are read, elsewhere a million bytes; each refusal says its own limit."""
    long = {"items": [FIT] * MAX_ITEMS}
    assert len(json.dumps(long)) > 1_000_000

    assert client.post("/v1/fit/batch", json=long).status_code == 200
    too_long = client.post("/v1/fit/batch", content=b" " * (MAX_BODY_BYTES + 1), headers=JSON)
    single = client.post("/v1/fit", content=b" " * 1_000_001, headers=JSON)
    assert (too_long.status_code, single.status_code) == (413, 413)
    assert "33,554,432" in too_long.json()["detail"]
    assert "1,000,000" in single.json()["detail"]


def test_numbers_show_what_an_engine_explains_for_nothing(client: TestClient[Any]) -> None:
    """Its parts are known before their sum is."""
    workload = {"task": "serve", "engine": "vllm", "num_sequences": 4, "prompt_tokens": 128}
    body = {"items": [changed("workload", workload)]}
    (item,) = client.post("/v1/fit/batch", json=body).json()["items"]

    assert item["per_gpu"]["stages"]
    assert item["rules_of_thumb"] == []


def test_a_batch_has_bounds_before_it_is_read(client: TestClient[Any]) -> None:
    """Neither many values nor one large item take memory; the other items are answered."""
    many = b'{"items":[' + b"0," * (MAX_ITEMS * MAX_ITEM_VALUES + 1) + b"0]}"
    large = {"items": [FIT | {"unread": "x" * 1_000_000}, FIT]}

    refused = client.post("/v1/fit/batch", content=many, headers=JSON)
    answered = client.post("/v1/fit/batch", json=large)

    assert (refused.status_code, refused.json()["type"]) == (413, "body-too-large")
    first, second = answered.json()["items"]
    assert first["problem"]["type"] == "body-too-large"
    assert second["verdict"]
