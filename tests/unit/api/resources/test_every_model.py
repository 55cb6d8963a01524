"""Every model of the catalogue, trained and served on a GPU of the catalogue: what must hold of any
answer.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from litestar.testing import TestClient

from service.catalog.models import (
    list_model_names,
    list_packed_models,
    list_recorded_models,
    resolve_model,
)
from tests.unit.api.builders import served

TRAIN: dict[str, Any] = {"task": "train", "sequence_length": 128}
SERVE: dict[str, Any] = {
    "task": "serve",
    "num_sequences": 2,
    "prompt_tokens": 128,
    "output_tokens": 8,
}
FRAMEWORKS: dict[str, dict[str, Any]] = {
    "transformers": {"sharding": "deepspeed", "zero_stage": 3, "data_parallel": 512},
    "megatron": {"sharding": "megatron"},
    "torchtitan": {"sharding": "fsdp2", "data_parallel": 2},
}
ENGINES = ("transformers", "vllm", "sglang", "tensorrt_llm", "llama_cpp")
ASKED: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    *((TRAIN | {"framework": name}, layout) for name, layout in FRAMEWORKS.items()),
    *((SERVE | {"engine": name}, {}) for name in ENGINES),
)
_NAMES = tuple(name for name in list_model_names() if "/" not in name)
_RECORDED = tuple(name for entry in list_recorded_models() if (name := entry.name) in _NAMES)
_PACKED = tuple(name for entry in list_packed_models() if (name := entry.name) in _NAMES)
_WRITTEN = tuple(name for name in _NAMES if name not in {*_RECORDED, *_PACKED})
MODELS = _WRITTEN + _PACKED[::3] + _RECORDED[::9]
"""Without the names that repositories give them, one in three recordings with packed weights, which
``tests/unit/catalog/test_packed_models.py`` holds to their files, and one in nine of the others:
each takes a fraction of a second to decode.
"""
_REPLAYED = frozenset({resolve_model(name).model_type: name for name in reversed(MODELS)}.values())
"""One model of each type: a replay of the others makes nothing that is not made of it."""
_UNREPLAYED = ["components", "instants", "throughput", "rules_of_thumb"]
NAMES = [workload.get("framework", "serve-" + str(workload.get("engine"))) for workload, _ in ASKED]
QUANTITIES = ("allocated", "reserved", "device")


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient[Any]]:
    """Return one application for all questions, so that each model is read once."""
    with served() as asked:
        yield asked


def _ask(  # noqa: PLR0913 - the words of a question
    client: TestClient[Any],
    model: str,
    workload: dict[str, Any],
    layout: dict[str, Any],
    *,
    gpu: str = "H100-SXM5-80GB",
    remedies: bool = False,
    include: list[str] | None = None,
) -> dict[str, Any] | None:
    """Return an answer; None is a refusal in words, and a fault fails the test."""
    parts = {} if include is None else {"include": include}
    question = {"model": model, "workload": workload, "gpu": gpu, "layout": layout}
    reply = client.post("/v1/fit", json=question | {"remedies": remedies} | parts)
    assert reply.status_code in {200, 422}, (model, workload, reply.text)
    body: dict[str, Any] = reply.json()
    return body if reply.status_code == 200 else None


@pytest.mark.parametrize(("workload", "layout"), ASKED, ids=NAMES)
def test_every_model_is_answered_or_refused_in_words(
    client: TestClient[Any], workload: dict[str, Any], layout: dict[str, Any]
) -> None:
    """No model is a fault of the service, and bytes, intervals, stages and verdicts of all answers
    agree.
    """
    asked = [
        _ask(
            client,
            model,
            workload,
            layout,
            include=None if model in _REPLAYED else _UNREPLAYED,
        )
        for model in MODELS
    ]

    answers = [answer for answer in asked if answer is not None]
    assert len(answers) > 10
    for answer in answers:
        _check_bytes(answer["per_gpu"])
        _check_verdict(answer)


def _check_bytes(per_gpu: dict[str, Any]) -> None:
    parts = [part["bytes"] for part in per_gpu["components"]]
    assert min(parts) > 0
    assert sum(parts) == per_gpu["device_bytes"]
    assert per_gpu["allocated_bytes"] <= per_gpu["reserved_bytes"] <= per_gpu["device_bytes"]
    for name in QUANTITIES:
        low, high = per_gpu["intervals"][name]
        assert 0 <= low <= per_gpu[f"{name}_bytes"] <= high
    assert (
        max(stage["allocated_bytes"] for stage in per_gpu["stages"]) == per_gpu["allocated_bytes"]
    )


def _check_verdict(answer: dict[str, Any]) -> None:
    needed, usable = answer["per_gpu"]["device_bytes"], answer["usable_bytes"]
    high = answer["per_gpu"]["intervals"]["device"][1]
    assert answer["verdict"] != "fits" or high <= usable
    assert answer["verdict"] == "does_not_fit" or needed <= usable
    assert min(answer["headroom_bytes"], answer["deficit_bytes"]) == 0


@pytest.mark.parametrize(
    "workload",
    [SERVE | {"engine": name} for name in ("transformers", "vllm", "sglang", "tensorrt_llm")],
)
def test_twice_the_tensor_parallel_ranks_hold_less_of_the_weights(
    client: TestClient[Any], workload: dict[str, Any]
) -> None:
    """A rank of two holds fewer bytes of weights than one alone, whatever the engine."""
    alone, shared = (
        _ask(client, "llama-2-7b", workload, {"tensor_parallel": ranks}) for ranks in (1, 2)
    )

    assert alone is not None
    assert shared is not None
    assert _weights(shared) < _weights(alone)


def test_megatron_ranks_hold_less_of_the_weights(client: TestClient[Any]) -> None:
    """Training splits the weights as serving does."""
    workload = TRAIN | {"framework": "megatron"}
    alone, shared = (
        _ask(client, "llama-3.2-1b", workload, {"sharding": "megatron", "tensor_parallel": ranks})
        for ranks in (1, 2)
    )

    assert alone is not None
    assert shared is not None
    assert _weights(shared) < _weights(alone)


def _weights(answer: dict[str, Any]) -> int:
    return sum(
        int(part["bytes"]) for part in answer["per_gpu"]["components"] if part["name"] == "weights"
    )


@pytest.mark.parametrize(("workload", "layout"), ASKED, ids=NAMES)
def test_more_tokens_are_never_faster(
    client: TestClient[Any], workload: dict[str, Any], layout: dict[str, Any]
) -> None:
    """Four times the tokens take no less time, and no fewer bytes."""
    word = "sequence_length" if workload["task"] == "train" else "prompt_tokens"
    few, many = (
        _ask(client, "llama-3.2-1b", workload | {word: tokens}, layout) for tokens in (256, 1024)
    )

    assert few is not None
    assert many is not None
    assert few["throughput"]["step_time_s"] <= many["throughput"]["step_time_s"]
    assert (few["throughput"]["prefill_time_s"] or 0) <= (many["throughput"]["prefill_time_s"] or 0)


REMEDIED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("llama-2-7b", TRAIN),
    ("llama-2-70b", SERVE | {"num_sequences": 16}),
    ("llama-2-70b", SERVE | {"engine": "vllm"}),
)


@pytest.mark.parametrize(("model", "workload"), REMEDIED, ids=["train", "serve", "vllm"])
def test_a_remedy_sent_back_gives_what_it_said(
    client: TestClient[Any], model: str, workload: dict[str, Any]
) -> None:
    """The words of a change, merged into the question, are a question with that verdict, those
    bytes and that time.
    """
    before = _ask(client, model, workload, {}, remedies=True)
    assert before is not None
    assert before["remedies"]

    for remedy in before["remedies"]:
        words = remedy["change"]
        layout = {name: value for name, value in words.items() if name in LAYOUT_WORDS}
        after = _ask(
            client,
            model,
            workload
            | {name: words[name] for name in words if name not in layout and name != "gpu"},
            layout,
            gpu=remedy["gpu"],
        )
        assert after is not None
        assert (after["verdict"], after["num_gpus"]) == (remedy["verdict"], remedy["num_gpus"])
        before_rate, after_rate = (
            answer["throughput"] and answer["throughput"]["tokens_per_second_per_gpu"]
            for answer in (before, after)
        )
        if before_rate is None or after_rate is None:  # weights on the host have no time
            assert remedy["slowdown"] is None
        else:
            assert remedy["slowdown"] == pytest.approx(before_rate / after_rate, abs=0.001)
        if after["serving"] is None or after["serving"]["kv_pool_bytes"] is None:
            saved = before["per_gpu"]["device_bytes"] - after["per_gpu"]["device_bytes"]
            assert max(saved, 0) == remedy["saves_bytes"]


LAYOUT_WORDS = frozenset(
    {
        "data_parallel",
        "tensor_parallel",
        "pipeline_parallel",
        "context_parallel",
        "context_parallel_method",
        "zero_stage",
        "sharding",
        "sequence_parallel",
    },
)


@pytest.mark.parametrize("quantization", ["none", "int8", "nf4"])
def test_no_interval_ends_below_the_weights(client: TestClient[Any], quantization: str) -> None:
    """Packed or not, weights are counted tensor by tensor: what is uncertain lies above them."""
    answer = _ask(client, "llama-2-70b", SERVE | {"quantization": quantization}, {})

    assert answer is not None
    assert answer["per_gpu"]["intervals"]["allocated"][0] >= _weights(answer)
    assert answer["per_gpu"]["intervals"]["device"][0] >= _weights(answer)
