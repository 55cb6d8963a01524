"""Keys of searches: equal for equal questions alone, and quick to make."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from service.api.computing.search_keys import build_search_key, encode_compared
from service.api.computing.searches import PlanJob
from service.base.typed import convert
from service.catalog.models import list_recorded_models, load_architecture, resolve_model
from service.contract.schemas.plans import PlanRequest
from service.contract.to_question.models import ResolvedModel
from service.contract.to_question.plans import read_plan, read_prices
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config
from service.estimator.model.recorded.architecture import build_recorded
from service.estimator.model.recorded.narrowing import is_recorded
from service.estimator.model.weights.gguf_bytes import GgufBytes
from service.planner.cluster.inventory import ClusterInventory, Node, Pool
from service.planner.cluster.reservation import Reservation, Share
from service.usecases.stored import StoredCluster
from tests.unit.api.builders import changed
from tests.unit.usecases.builders import TINY_LLAMA

PLAN: dict[str, Any] = {
    "model": {"hf_config": TINY_LLAMA},
    "workload": {"task": "train", "sequence_length": 64},
    "gpus": ["H200"],
    "constraints": {"max_gpus": 2},
}
LONGEST_BYTES = 10_000
"""Of what is compared of a question: several times what a plan is without its model's recording."""


def read_job(body: dict[str, Any], architecture: Architecture | None = None) -> PlanJob:
    """Return what a plan is computed from, of another model where one is given."""
    request = convert(body, PlanRequest)
    prices = read_prices(request)
    model = architecture or architecture_from_config(body["model"]["hf_config"])
    return PlanJob(
        question=read_plan(request, ResolvedModel(architecture=model), prices), prices=prices
    )


def test_an_equal_question_has_an_equal_key() -> None:
    """Read anew from its text, and of its model's config."""
    assert build_search_key(read_job(PLAN)) == build_search_key(read_job(PLAN))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("gpus", ["H100-SXM"]),
        ("gpus", ["H200", "H100-SXM"]),
        ("workload.sequence_length", 65),
        ("workload.optimizer", "sgd"),
        ("layout.tensor_parallel", 2),
        ("objective", "fastest"),
        ("confidence", 0.9),
        ("constraints.max_gpus", 4),
        ("constraints.gpus_per_node", 4),
        ("constraints.allow", ["offload"]),
        ("prices", {"H200": 1.0}),
        ("pareto", True),
        ("format", ["slurm"]),
        ("model.hf_config.num_hidden_layers", 3),
        ("model.hf_config.hidden_act", "relu"),
    ],
)
def test_another_question_has_another_key(path: str, value: object) -> None:
    """Every word of a plan counts, the models that it brings and its prices too."""
    assert build_search_key(read_job(changed(path, value, PLAN))) != build_search_key(
        read_job(PLAN)
    )


@pytest.fixture(scope="module", name="recorded")
def load_recorded() -> Architecture:
    """Load the tree of a model that was recorded."""
    return load_architecture(resolve_model(list_recorded_models()[0].name))


def test_a_recording_is_compared_by_its_digest(recorded: Architecture) -> None:
    """The same one has an equal key, built anew; another recording and another load do not."""
    assert is_recorded(recorded)
    recording = recorded.recorded
    other = replace(recording, spec=replace(recording.spec, recording="0" * 64))
    same, equal, another, unpacked = (
        read_job(PLAN, model)
        for model in (
            recorded,
            build_recorded(recording),
            build_recorded(other),
            replace(recorded, gguf=GgufBytes(table=1, head=1, outside=1, by_layer=())),
        )
    )

    assert build_search_key(same) == build_search_key(equal)
    assert len({build_search_key(job) for job in (same, another, unpacked)}) == 3
    assert len(encode_compared(same)) < LONGEST_BYTES


NOW = datetime(2026, 1, 1, tzinfo=UTC)
CLUSTER = StoredCluster(
    id=UUID(int=1),
    name="c",
    version=1,
    inventory=ClusterInventory(
        pools=(
            Pool(
                name="h200",
                gpu="H200",
                gpus_per_node=8,
                nodes=tuple(Node(name=f"n{number}") for number in range(1000)),
            ),
        )
    ),
    created_at=NOW,
    updated_at=NOW,
    reservations=(
        Reservation(
            holder="me",
            shares=(Share(pool="h200", node="n1", num_gpus=2),),
            expires_at=NOW + timedelta(hours=1),
        ),
    ),
)
HELD = CLUSTER.reservations[0]


@pytest.mark.parametrize(
    "changes",
    [
        {"id": UUID(int=2)},
        {"version": 2},
        {"updated_at": NOW + timedelta(seconds=1)},
        {"reservations": ()},
        {"reservations": (HELD, replace(HELD, holder="you"))},
        {"reservations": (replace(HELD, holder="you"),)},
        {"reservations": (replace(HELD, expires_at=NOW + timedelta(hours=2)),)},
        {"reservations": (replace(HELD, shares=(replace(HELD.shares[0], num_gpus=3),)),)},
    ],
)
def test_another_state_of_a_cluster_has_another_key(changes: dict[str, Any]) -> None:
    """What was stored of it last, and what is reserved, by whom and until when."""
    job = read_job(PLAN)
    before, after = (job, CLUSTER), (job, replace(CLUSTER, **changes))
    aged = (replace(job, warnings=("2 nodes were last seen 2 hours ago",)), CLUSTER)

    assert len({build_search_key(one) for one in (job, before, after, aged)}) == 4


def test_a_cluster_is_compared_without_its_nodes() -> None:
    """Its version changes with each of them."""
    assert len(encode_compared((read_job(PLAN), CLUSTER))) < LONGEST_BYTES
