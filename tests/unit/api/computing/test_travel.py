"""Models and clusters, on their way to processes beside the server's."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from service.api.computing.searches import PlanJob, answer_plan
from service.catalog.models import list_recorded_models, load_architecture, resolve_model
from service.contract.to_question.plans import PriceBook
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config, list_model_types
from service.estimator.model.families.synthetic import build_synthetic_architecture
from service.estimator.model.quantization.loading import as_loaded
from service.estimator.model.weights.gguf_bytes import GgufBytes
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Lora, Method, TrainWorkload
from service.formats.renderings.job import JobNames
from service.planner.cluster.inventory import ClusterInventory, Node, Pool
from service.planner.cluster.supply import build_supply
from service.planner.plans.objectives import Objective
from service.planner.search.search_space import Question
from service.runtime.children.pool import ChildPool
from service.usecases.questions.plans import PlanQuestion
from tests.tiny_models import tiny_config
from tests.unit.api.computing.asking import ask, drop_times, make_both
from tests.unit.api.computing.functions import Estimation, estimate_memory

TWO_STACKS = {"decoder_length": 32}
LENGTHS: Mapping[str, dict[str, int]] = {
    "bart": TWO_STACKS,
    "mbart": TWO_STACKS,
    "mt5": TWO_STACKS,
    "t5": TWO_STACKS,
    "vit": {"sequence_length": 17},
    "whisper": {"sequence_length": 50, **TWO_STACKS},
}
"""What a family reads that is not 64 tokens."""
ADAPTED = {"method": Method.LORA, "lora": Lora(rank=8)}


@pytest.mark.parametrize("family", list_model_types())
def test_a_model_of_every_family_goes_there_and_back(pool: ChildPool, family: str) -> None:
    """It is built again at the other end, with functions of its own, and holds the same bytes."""
    check_travel(pool, architecture_from_config(tiny_config(family)), LENGTHS.get(family, {}))


@pytest.mark.parametrize(
    "model",
    [
        build_synthetic_architecture(10**9),
        load_architecture(resolve_model(list_recorded_models()[0].name)),
        architecture_from_config(
            tiny_config("llama")
            | {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 32}}
        ),
        architecture_from_config(tiny_config("llama")).with_layers(1),
        as_loaded(
            replace(
                architecture_from_config(tiny_config("llama")),
                gguf=GgufBytes(table=1, head=1, outside=1, by_layer=()),
            ),
            TrainWorkload(sequence_length=64),
        ),
    ],
    ids=["synthetic", "recorded", "quantised", "cut", "unpacked"],
)
def test_a_model_of_every_origin_goes_there_and_back(pool: ChildPool, model: Architecture) -> None:
    """What is not its family's travels with it."""
    check_travel(pool, model, {} if model.quantization is None else ADAPTED)


def test_a_cluster_goes_there(pool: ChildPool) -> None:
    """A plan on what is free of it is the one that the server's process makes."""
    nodes = tuple(Node(name=f"n{number}", allocated_gpus=0) for number in range(2))
    a100s = Pool(name="a100", gpu="A100-SXM4-80GB", gpus_per_node=8, nodes=nodes)
    job = PlanJob(
        question=PlanQuestion(
            architecture=architecture_from_config(tiny_config("zamba2")),
            question=Question(
                workload=TrainWorkload(sequence_length=64), layout=Layout(), fixed=frozenset()
            ),
            offers=(),
            objective=Objective.FEWEST_GPUS,
            names=JobNames(model_name="zamba2"),
        ),
        prices=PriceBook(overrides={}),
        supply=build_supply(ClusterInventory(pools=(a100s,))),
    )

    there, here = (ask(searches, answer_plan, job) for searches in make_both(pool))

    assert drop_times(json.loads(there.body)) == drop_times(json.loads(here.body))


def check_travel(pool: ChildPool, model: Architecture, changes: Mapping[str, Any]) -> None:
    """Ask a child about a model, and compare with what is known here."""
    workload = TrainWorkload(**{"sequence_length": 64, **changes})
    question = Estimation(model=model, workload=workload)

    (other, there), (_, here) = (
        ask(searches, estimate_memory, question) for searches in make_both(pool)
    )

    assert there == here
    assert type(other) is type(model)
    assert (other.fingerprint(), other.counts, other.unpacked) == (
        model.fingerprint(),
        model.counts,
        model.unpacked,
    )
