"""POST /v1/plans without a database: the best plans, kept to the request, complete, and
explained.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from litestar.testing import TestClient

from service.api.resources.plans import EXAMPLE
from tests.unit.api.builders import served

QUESTION: dict[str, Any] = {
    "model": "llama-2-7b",
    "workload": {"task": "train", "sequence_length": 4096},
    "gpus": ["A100-SXM4-80GB"],
    "constraints": {"max_gpus": 16, "frameworks": ["deepspeed", "ddp"]},
}
SERVED: dict[str, Any] = {
    "model": "llama-2-13b",
    "workload": {
        "task": "serve",
        "engine": "vllm",
        "num_sequences": 16,
        "prompt_tokens": 512,
        "output_tokens": 128,
    },
    "gpus": ["L4", "A100"],
}


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes for the tests of this file."""
    with served() as client:
        yield client


def ask(
    client: TestClient[Any], question: dict[str, Any] = QUESTION, **changes: object
) -> dict[str, Any]:
    """Return the answer to a legal question."""
    answer = client.post("/v1/plans", json=question | changes)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def refusal(client: TestClient[Any], **changes: object) -> dict[str, Any]:
    """Return the problem that an illegal question gets."""
    body = {name: value for name, value in (QUESTION | changes).items() if value is not None}
    answer = client.post("/v1/plans", json=body)
    assert answer.status_code == 422, answer.text
    return dict(answer.json())


def test_the_documented_example_has_an_answer(client: TestClient[Any]) -> None:
    """70 billion parameters take whole nodes, and every smaller number has a reason on each kind of
    GPU.
    """
    found = ask(client, EXAMPLE)

    assert found["num_gpus"] % 8 == 0
    assert {alternative["gpu"] for alternative in found["alternatives"]} == set(EXAMPLE["gpus"])
    assert all(
        miss["num_gpus"] < found["num_gpus"] and miss["reason"] for miss in found["rejected"]
    )
    for candidate in found["candidates"]:
        workload, layout = candidate["workload"], candidate["layout"]
        assert layout["sharding"] in {"deepspeed", "fsdp2"}
        assert (
            workload["micro_batch_size"]
            * workload["gradient_accumulation_steps"]
            * layout["data_parallel"]
            == 512
        )


@pytest.mark.parametrize(
    "question", [QUESTION, SERVED, QUESTION | {"gpus": [{"memory_bytes": "80Gi"}]}]
)
def test_a_candidate_sent_back_gives_the_same_fit(
    client: TestClient[Any], question: dict[str, Any]
) -> None:
    """Layout, workload and GPU are complete: /v1/fit says the same of them, to the byte."""
    found = ask(client, question)

    assert found["candidates"]
    for candidate in found["candidates"]:
        body = {
            "model": question["model"],
            **{name: candidate[name] for name in ("gpu", "layout", "workload")},
        }
        fit = client.post("/v1/fit", json=body).json()

        assert fit["verdict"] == "fits"
        assert fit["per_gpu"] == candidate["fit"]["per_gpu"]
        assert fit["throughput"] == candidate["fit"]["throughput"]


def test_what_the_request_says_is_kept(client: TestClient[Any]) -> None:
    """A stage and a micro batch that are named are not searched, nor are they assumptions."""
    workload = QUESTION["workload"] | {"micro_batch_size": 2}
    found = ask(client, workload=workload, layout={"zero_stage": 3, "sharding": "deepspeed"})

    assert {candidate["layout"]["zero_stage"] for candidate in found["candidates"]} == {3}
    assert {candidate["workload"]["micro_batch_size"] for candidate in found["candidates"]} == {2}
    assumed = {line.partition(" = ")[0] for line in found["assumptions"]}
    assert "workload.optimizer" in assumed
    assert (
        not {
            "layout.zero_stage",
            "layout.tensor_parallel",
            "workload.micro_batch_size",
            "workload.framework",
        }
        & assumed
    )


def test_a_family_is_every_sku_and_the_cheapest_wins(client: TestClient[Any]) -> None:
    """Alternatives keep the order of the request; what has no price cannot be the cheapest."""
    found = ask(client, SERVED, objective="cheapest")
    priced = [
        one["cost_per_hour"] for one in found["alternatives"] if one["cost_per_hour"] is not None
    ]

    assert found["alternatives"][0]["gpu"] == "L4"
    assert {one["gpu"].partition("-")[0] for one in found["alternatives"]} == {"L4", "A100"}
    assert found["candidates"][0]["cost_per_hour"] == min(priced)
    assert found["candidates"][0]["price_source"]


def test_own_prices_come_before_the_price_book(client: TestClient[Any]) -> None:
    """A free A100 is the cheapest, and says whose price that is."""
    found = ask(client, SERVED, objective="cheapest", prices={"A100-SXM4-80GB": 0})

    assert found["gpu"] == "A100-SXM4-80GB"
    assert found["candidates"][0]["cost_per_hour"] == 0
    assert found["candidates"][0]["price_source"] == "the request"


def test_the_fastest_takes_more_gpus_than_the_fewest(client: TestClient[Any]) -> None:
    """Sixteen GPUs train faster than the three that are enough."""
    fewest, fastest = ask(client), ask(client, objective="fastest")

    assert fastest["num_gpus"] > fewest["num_gpus"]
    assert (
        fastest["candidates"][0]["tokens_per_second"] > fewest["candidates"][0]["tokens_per_second"]
    )


def test_a_front_has_nothing_that_another_beats(client: TestClient[Any]) -> None:
    """No point has more memory, less speed and a higher price than another."""
    front = ask(client, pareto=True)["pareto"]

    assert len(front) > 1
    for one in front:
        for other in front:
            worse = (
                one["device_bytes"] > other["device_bytes"]
                and one["cost_per_hour"] > other["cost_per_hour"]
            )
            assert not (worse and one["tokens_per_second"] < other["tokens_per_second"])
    assert ask(client)["pareto"] is None


def test_nothing_is_enough_is_an_answer(client: TestClient[Any]) -> None:
    """The closest miss, in words and bytes."""
    found = ask(client, gpus=["T4"], constraints={"max_gpus": 1})

    assert (found["num_gpus"], found["gpu"], found["candidates"]) == (None, None, [])
    assert found["closest"]["missing_bytes"] > 0
    assert found["reason"].startswith("max_gpus is 1")
    assert found["alternatives"][0]["reason"] == found["reason"]


def test_a_limit_of_time_takes_more_gpus(client: TestClient[Any]) -> None:
    """Numbers that fit and take too long say so; the plan keeps the limit."""
    constraints = QUESTION["constraints"] | {"global_batch_size": 16}
    slow = ask(client, constraints=constraints)
    fast = ask(
        client,
        constraints=constraints | {"max_step_time_s": slow["candidates"][0]["step_time_s"] / 2},
    )

    assert fast["num_gpus"] > slow["num_gpus"]
    assert fast["candidates"][0]["step_time_s"] <= slow["candidates"][0]["step_time_s"] / 2
    assert any("fits, but a step takes" in miss["reason"] for miss in fast["rejected"])


def test_offload_is_used_only_when_it_is_allowed(client: TestClient[Any]) -> None:
    """With it one GPU is enough; without, nothing leaves the GPU."""
    constraints = {"max_gpus": 16, "frameworks": ["deepspeed"]}
    moved = ask(client, constraints=constraints | {"allow": ["offload"]})
    kept = ask(client, constraints=constraints)

    assert moved["num_gpus"] == 1 < kept["num_gpus"]
    assert moved["candidates"][0]["workload"]["offload"]["optimizer"] == "cpu"
    assert all(
        candidate["workload"]["offload"]["optimizer"] == "none" for candidate in kept["candidates"]
    )


@pytest.mark.parametrize(
    ("question", "used", "unused"),
    [("train", "offload", "quantization"), ("serve", "quantization", "offload")],
)
def test_a_permission_without_a_use_is_told_and_changes_nothing(
    client: TestClient[Any], question: str, used: str, unused: str
) -> None:
    """One list of permissions serves questions of both tasks."""
    asked = SERVED if question == "serve" else QUESTION
    alone = ask(client, asked, constraints={"max_gpus": 8, "allow": [used]})
    both = ask(client, asked, constraints={"max_gpus": 8, "allow": [used, unused]})

    assert any(line.startswith(f"constraints.allow: {unused}") for line in both["assumptions"])
    assert [both["num_gpus"], both["gpu"]] == [alone["num_gpus"], alone["gpu"]]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"gpus": None}, "gpus"),
        ({"cluster": "prod-a"}, "gpus"),
        ({"gpus": ["H99"]}, "gpu"),
        ({"objective": "prettiest"}, "objective"),
        ({"confidence": 0.995}, "confidence"),
        ({"prices": {"H99": 1.0}}, "prices"),
        ({"constraints": {"max_gpu": 3}}, "constraints.max_gpu"),
        (
            {"constraints": {"gpus_per_node": 4}, "layout": {"gpus_per_node": 8}},
            "constraints.gpus_per_node",
        ),
        (
            {"constraints": {"max_cost_per_hour": 5.0}, "gpus": ["V100-SXM2-32GB"]},
            "constraints.max_cost_per_hour",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(
    client: TestClient[Any], changes: dict[str, object], field: str
) -> None:
    """Each refusal names the field."""
    assert refusal(client, **changes)["errors"][0]["field"] == field


def test_searched_says_how_much_was_considered(client: TestClient[Any]) -> None:
    """Everything open, thousands of layouts are considered and few of them estimated."""
    found = ask(client, model="llama-2-70b", constraints={"max_gpus": 512})

    assert found["searched"]["layouts"] >= 4000
    assert found["searched"]["estimated"] < found["searched"]["layouts"] / 20
    assert found["searched"]["pruned"]["states_alone"] > 0


def test_weights_are_quantised_only_where_it_is_allowed(client: TestClient[Any]) -> None:
    """In four bits 13 billion parameters need fewer GPUs of 24 GB than in sixteen."""
    asked = SERVED | {"gpus": ["L4"], "workload": SERVED["workload"] | {"num_sequences": 64}}
    kept, allowed = ask(client, asked), ask(client, asked, constraints={"allow": ["quantization"]})

    assert allowed["num_gpus"] < kept["num_gpus"]
    assert {candidate["workload"].get("quantization") for candidate in kept["candidates"]} == {None}
    assert allowed["candidates"][0]["workload"]["quantization"] in {"fp8", "awq_int4"}


@pytest.mark.parametrize(
    ("question", "constraints", "field"),
    [
        (QUESTION, {"max_prefill_time_s": 1.0}, "constraints.max_prefill_time_s"),
        (QUESTION, {"max_hours": 2.0}, "constraints.max_hours"),
        (SERVED, {"global_batch_size": 8}, "constraints.global_batch_size"),
        (SERVED, {"frameworks": ["ddp"]}, "constraints.frameworks"),
    ],
)
def test_bounds_that_mean_nothing_for_the_task_are_refused(
    client: TestClient[Any], question: dict[str, Any], constraints: dict[str, Any], field: str
) -> None:
    """None of them is silently ignored."""
    answer = client.post("/v1/plans", json=question | {"constraints": constraints})

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == field
