"""POST /v1/fit without a database: the contract's answer, and every bad input of the contract."""

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
from litestar.testing import TestClient

from service.api.resources import fit_answers
from service.catalog.models import load_config, resolve_model
from service.planner.fit.fit import FitReport
from tests.unit.api.builders import FIT, changed, served

GIB = 2**30


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes for the tests of this file."""
    with served() as client:
        yield client


def answer(client: TestClient[Any], body: object) -> dict[str, Any]:
    """Return the answer to a question that is legal."""
    found = client.post("/v1/fit", json=body)
    assert found.status_code == 200, found.text
    return dict(found.json())


def test_answer_has_every_field_of_the_contract(client: TestClient[Any]) -> None:
    """Names and nesting are those that clients rely on."""
    found = answer(client, FIT)

    assert {
        "verdict", "basis", "num_gpus", "per_gpu", "capacity_bytes", "usable_bytes", "headroom_bytes", "deficit_bytes",  # noqa: E501
        "host_bytes_per_node", "checkpoint_bytes", "serving", "throughput", "rules_of_thumb", "remedies", "assumptions",  # noqa: E501
        "warnings", "calibration",
    } <= set(found)  # fmt: skip
    assert {
        "allocated_bytes", "reserved_bytes", "device_bytes", "steady_bytes", "intervals", "peak_instant", "worst_rank",  # noqa: E501
        "components", "instants", "stages",
    } <= set(found["per_gpu"])  # fmt: skip
    assert [instant["name"] for instant in found["per_gpu"]["instants"]] == [
        "load",
        "forward",
        "loss",
        "backward",
        "optimizer_step",
    ]


def test_phases_count_the_loss_in_both_passes(client: TestClient[Any]) -> None:
    """A profiler sees forward and backward; each holds its part of the loss, so that the higher one
    is the instants' peak.
    """
    per_gpu = answer(client, FIT)["per_gpu"]
    phases = {phase["name"]: phase["allocated_bytes"] for phase in per_gpu["phases"]}
    instants = {instant["name"]: instant["allocated_bytes"] for instant in per_gpu["instants"]}

    assert list(phases) == ["forward_pass", "backward_pass", "optimizer_step"]
    assert phases["forward_pass"] >= instants["forward"]
    assert max(phases["forward_pass"], phases["backward_pass"]) == max(
        instants[name] for name in ("forward", "loss", "backward")
    )


def test_full_fine_tuning_of_seven_billion_does_not_fit_on_one_gpu(client: TestClient[Any]) -> None:
    """The headline question: 16 bytes per parameter alone exceed 80 GB, and the answer says what
    would help.
    """
    found = answer(client, FIT)

    assert found["verdict"] == "does_not_fit"
    assert found["headroom_bytes"] == 0
    assert found["deficit_bytes"] == found["per_gpu"]["device_bytes"] - found["usable_bytes"] > 0
    assert any(remedy["verdict"] == "fits" for remedy in found["remedies"])
    assert found["rules_of_thumb"][0]["bytes"] == 16 * 6738415616


def test_components_add_up(client: TestClient[Any]) -> None:
    """The parts of the deciding instant sum exactly to what NVML would show."""
    per_gpu = answer(client, FIT)["per_gpu"]

    assert sum(part["bytes"] for part in per_gpu["components"]) == per_gpu["device_bytes"]
    for quantity in ("allocated", "reserved", "device"):
        low, high = per_gpu["intervals"][quantity]
        assert low <= per_gpu[f"{quantity}_bytes"] <= high


def test_serving_answers_as_well(client: TestClient[Any]) -> None:
    """The cache of llama-7b at 64 x 2048 is 64 GiB in 16 bit: 2 x 32 layers x 4096 x 2 B a
    token; ``generate`` never caches its last one.
    """
    workload = {"task": "serve", "num_sequences": 64, "prompt_tokens": 1536, "output_tokens": 513}
    found = answer(client, changed("workload", workload))

    assert found["serving"]["kv_bytes_per_token"] == 2 * 32 * 4096 * 2
    assert found["serving"]["kv_cache_bytes"] == 64 * GIB


def test_defaults_are_listed_and_what_is_said_is_not(client: TestClient[Any]) -> None:
    """Every default that the answer rests on stands under assumptions."""
    found = answer(client, changed("workload.optimizer", "sgd"))

    assert "workload.precision = bf16_mixed" in found["assumptions"]
    assert not any(line.startswith("workload.optimizer") for line in found["assumptions"])


def test_memory_stands_for_a_gpu(client: TestClient[Any]) -> None:
    """A GPU may be given by what a process can allocate."""
    found = answer(client, changed("gpu", {"memory_bytes": "80Gi"}))

    assert found["usable_bytes"] == 80 * GIB


@pytest.mark.parametrize(("memory", "says"), [("0Gi", "1 byte or more"), (0, ">= 1")])
def test_a_gpu_without_memory_is_refused(
    client: TestClient[Any], memory: object, says: str
) -> None:
    """However it is written, nothing is no amount of memory for a GPU."""
    answer = client.post("/v1/fit", json=changed("gpu", {"memory_bytes": memory}))

    assert answer.status_code == 422
    assert says in answer.json()["detail"]
    assert answer.json()["errors"][0]["field"] == "gpu.memory_bytes"


def test_inline_config_equals_the_catalogue(client: TestClient[Any]) -> None:
    """A config.json in the request is answered as the catalogue model that it is."""
    config = load_config(resolve_model("llama-2-7b"))

    assert answer(client, changed("model", {"hf_config": config})) == answer(client, FIT)


def test_described_architecture_is_read_back(client: TestClient[Any]) -> None:
    """Our own spec, as GET /v1/models shows it, gives the same answer."""
    shown = client.get("/v1/models/llama-2-7b").json()

    assert answer(client, changed("model", {"architecture": shown["architecture"]})) == answer(
        client, FIT
    )
    assert shown["parameters"]["total"] == 6738415616
    assert shown["weight_bytes"] == {"fp32": 26953662464, "bf16": 13476831232}


@pytest.mark.parametrize(
    ("path", "value", "slug", "says"),
    [
        ("workload.micro_batch_sise", 1, "invalid-request", "micro_batch_size"),
        ("layout.data_paralel", 8, "invalid-request", "data_parallel"),
        ("gpu", {"memory_bytes": "80GB"}, "invalid-request", "80000000000"),
        ("gpu", {"memory_bytes": "80G"}, "invalid-request", "85899345920"),
        ("gpu", "A100", "unknown-gpu", "A100-SXM4-40GB"),
        ("gpu", "A100-SXM4-80BG", "unknown-gpu", "A100-SXM4-80GB"),
        ("model", "lama-2-7b", "unknown-model", "llama-2-7b"),
        ("model", {"hf_config": {"model_type": "lama"}}, "unknown-model-type", "llama"),
        ("model", {"hf_config": {}}, "invalid-model-config", "model_type"),
        ("model", {}, "invalid-request", "hf_config"),
        ("model", {"hf_config": {}, "num_parameters": 7}, "invalid-request", "exactly one"),
        ("workload.micro_batch_size", -1, "invalid-request", ">= 1"),
        ("layout.tensor_parallel", 3, "", "tensor_parallel"),
        ("workload.optimizer", "adam_w", "invalid-request", "adamw"),
        ("workload.deterministic", True, "not-modelled", "deterministic"),
        ("workload.lora", {"rank": 8}, "invalid-request", "lora"),
    ],
)
def test_bad_input_says_what_would_be_right(
    client: TestClient[Any], path: str, value: object, slug: str, says: str
) -> None:
    """A rule that is broken is answered with 422, the path of the value and what would be right."""
    found = client.post("/v1/fit", json=changed(path, value))
    problem = found.json()

    assert found.status_code == 422
    assert found.headers["content-type"] == "application/problem+json"
    assert slug in problem["type"]
    assert says in problem["detail"]


def test_fields_are_named_inside_inline_models(client: TestClient[Any]) -> None:
    """What is wrong in a config.json is named by its place in the request."""
    found = client.post(
        "/v1/fit", json=changed("model", {"hf_config": {"model_type": "lama"}})
    ).json()

    assert found["errors"][0]["field"] == "model.hf_config.model_type"


def test_depth_bomb_bad_utf8_and_syntax_are_400(client: TestClient[Any]) -> None:
    """What is no JSON is 400 over HTTP too."""
    bomb = b'{"model": ' + b'{"hf_config": ' * 2000 + b"1" + b"}" * 2001
    for body in (bomb, b'{"model": "\xff"}', b"{"):
        found = client.post("/v1/fit", content=body, headers={"content-type": "application/json"})

        assert (found.status_code, found.json()["type"]) == (400, "malformed-body")


def test_huge_body_is_413(client: TestClient[Any]) -> None:
    """More than a megabyte is not read."""
    found = client.post(
        "/v1/fit", content=b" " * 1_000_001, headers={"content-type": "application/json"}
    )

    assert (found.status_code, found.json()["type"]) == (413, "body-too-large")


def test_other_content_type_is_415(client: TestClient[Any]) -> None:
    """JSON that is declared as something else is not read."""
    found = client.post("/v1/fit", content=b"{}", headers={"content-type": "text/plain"})

    assert (found.status_code, found.json()["type"]) == (415, "unsupported-media-type")


@pytest.mark.parametrize(
    "workload",
    [
        {
            "task": "train",
            "sequence_length": 100_000_000,
            "micro_batch_size": 65_536,
            "attention": "eager",
        },
        {
            "task": "serve",
            "num_sequences": 65_536,
            "prompt_tokens": 100_000_000,
            "output_tokens": 100_000_000,
        },
    ],
)
def test_absurd_sizes_are_answered_exactly_or_refused(
    client: TestClient[Any], workload: dict[str, Any]
) -> None:
    """No number leaves that a client could not read exactly, and none is too large for the
    service.
    """
    found = client.post("/v1/fit", json=changed("workload", workload))

    assert found.status_code in {200, 422}
    for number in _numbers(found.json()):
        assert math.isfinite(number)
        assert abs(number) <= 2**53


def _numbers(value: object) -> Iterator[float]:
    match value:
        case dict():
            for item in value.values():
                yield from _numbers(item)
        case list():
            for item in value:
                yield from _numbers(item)
        case int() | float():
            yield value
        case _:
            return


def test_a_first_answer_waits_for_no_remedies(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are searched for seconds, and a first answer takes hundredths of one."""
    begun, end = Event(), Event()

    def search(report: FitReport, *_: object) -> FitReport:
        begun.set()
        end.wait(20)
        return report

    monkeypatch.setattr(fit_answers, "add_fit_remedies", search)
    with served() as client, ThreadPoolExecutor(1) as pool:
        searching = pool.submit(answer, client, FIT)
        assert begun.wait(20)
        fitting = answer(client, changed("workload.sequence_length", 64, FIT | {"model": "gpt2"}))
        was_searching = not searching.done()
        end.set()

    assert fitting["verdict"] == "fits"
    assert was_searching
    assert searching.result()["verdict"] == "does_not_fit"
