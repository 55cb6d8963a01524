"""Costly answers, computed in processes beside the server's."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from litestar.testing import TestClient
from structlog.testing import capture_logs

from service.api.computing.budgets import Budget, TooCostlyError
from service.api.computing.means import Means
from service.api.computing.search_processes import (
    MEMORY_BYTES,
    SEARCH_MODULES,
    SearchProcesses,
)
from service.api.computing.searches import PlanJob, answer_plan
from service.base.errors import UnavailableError
from service.catalog.models import list_recorded_models, load_architecture, resolve_model
from service.contract.to_question.plans import PriceBook
from service.estimator.cache import PlanCache
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_config, list_model_types
from service.estimator.model.families.synthetic import build_synthetic_architecture
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Lora, Method, TrainWorkload
from service.formats.renderings.job import JobNames
from service.planner.cluster.inventory import ClusterInventory, Node, Pool
from service.planner.cluster.supply import build_supply
from service.planner.plans.objectives import Objective
from service.planner.search.search_space import Question
from service.runtime.children.pool import ChildPool
from service.runtime.children.starting import ChildStarter
from service.usecases.learning.corrections import CorrectionCache
from service.usecases.questions.plans import PlanQuestion
from tests.tiny_models import tiny_config
from tests.unit.api.builders import FIT, parts, served
from tests.unit.api.computing import functions
from tests.unit.api.computing.functions import (
    Estimation,
    die,
    estimate_memory,
    get_pid,
    get_version,
    list_loaded,
    make_function,
    spend,
    take_memory,
)

Q = TypeVar("Q")
A = TypeVar("A")
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
HYBRID = {
    "hf_config": {
        "model_type": "jamba",
        "hidden_size": 512,
        "intermediate_size": 1024,
        "num_hidden_layers": 16,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "mamba_dt_rank": 32,
        "vocab_size": 4096,
    }
}
LIMITS = {"max_gpus": 8, "gpus_per_node": 8}
SEARCH = {"workload": FIT["workload"], "gpus": [FIT["gpu"]], "constraints": LIMITS}
COUNT = {"workload": FIT["workload"], "gpu": FIT["gpu"]}
MAXIMUM = COUNT | {"maximize": "micro_batch_size"}


@pytest.fixture(scope="module")
def pool() -> Iterator[ChildPool]:
    """Return processes that compute."""
    pool = ChildPool(ChildStarter((*SEARCH_MODULES, functions.__name__)), keeps=True)
    yield pool
    pool.close()


@pytest.fixture(scope="module")
def client(pool: ChildPool) -> Iterator[TestClient[Any]]:
    """Serve an API that computes there."""
    with served(replace(parts(), searches=SearchProcesses(pool))) as client:
        yield client


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/plans", SEARCH | {"model": "llama-3.2-1b"}),
        ("/v1/plans", SEARCH | {"model": HYBRID}),
        ("/v1/plans", SEARCH | {"model": "gemma-2-2b", "objective": "fastest"}),
        ("/v1/how-many", COUNT | {"model": "gpt2"}),
        ("/v1/how-many", COUNT | {"model": "gpt2", "constraints": {"max_gpus": 0}}),
        ("/v1/ceilings", MAXIMUM | {"model": "bert-base"}),
        ("/v1/fit", FIT | {"model": HYBRID}),
        ("/v1/fit", FIT | {"model": HYBRID, "gpu": {"memory_bytes": 2**30}}),
    ],
)
def test_answers_are_those_of_the_servers_process(
    client: TestClient[Any], path: str, body: dict[str, Any]
) -> None:
    """They are the same but for the time that they took, refusals too."""
    answer = client.post(path, json=body)

    with served() as plain:
        expected = plain.post(path, json=body)
    assert answer.status_code == expected.status_code
    assert drop_times(answer.json()) == drop_times(expected.json())
    assert dict(answer.headers).keys() == dict(expected.headers).keys()


def test_a_query_has_its_refusals_in_its_words(client: TestClient[Any]) -> None:
    """A field that is refused in another process is named as the query spells it."""
    query = {"model": "gpt2", "gpu": FIT["gpu"], "task": "train", "sequence_length": 10**7}

    answer = client.get("/v1/how-many", params=query)

    with served() as plain:
        expected = plain.get("/v1/how-many", params=query)
    assert answer.status_code == 422
    assert answer.json()["detail"] == expected.json()["detail"]
    assert answer.json().get("errors") == expected.json().get("errors")


def test_an_answer_has_a_budget_in_its_process(pool: ChildPool) -> None:
    """It is refused there, and counted here."""
    budget = make_budget(seconds=0.01)

    with pytest.raises(TooCostlyError, match=r"more than 0\.01 s of a processor"):
        ask(SearchProcesses(pool), spend, None, budget=budget)

    assert budget.spent_s >= 0.01


def test_whoever_leaves_has_used_what_he_used(pool: ChildPool) -> None:
    """The search ends with its asker, and counts against him."""
    looks = iter(range(3))

    def leave() -> None:
        if next(looks) == 2:
            raise InterruptedError

    budget = Budget(seconds=30.0, check_caller=leave)

    with pytest.raises(InterruptedError):
        ask(SearchProcesses(pool), spend, None, budget=budget)

    assert 0 < budget.spent_s < 30.0


def test_what_is_learnt_reaches_the_process(pool: ChildPool) -> None:
    """It asks for it once, and again when there is something new."""
    corrections = CorrectionCache(read_changed=lambda _since: ())
    versions = []
    for _ in range(2):
        versions.append((ask_version(pool, corrections), corrections.version))
        corrections = CorrectionCache(read_changed=lambda _since: ())
        corrections.refresh()

    assert versions == [(0, 0), (1, 1)]


def test_a_process_loads_no_framework_and_no_database(pool: ChildPool) -> None:
    """It starts soon, and has nothing that a search could reach."""
    loaded = ask(SearchProcesses(pool), list_loaded, ("litestar", "sqlalchemy", "psycopg"))

    assert loaded == []


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
        replace(architecture_from_config(tiny_config("llama")), unpacked="it was unpacked"),
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


@pytest.mark.parametrize(
    ("function", "question"),
    [(get_pid, lambda: 7), (make_function, None)],
    ids=["question", "answer"],
)
def test_what_cannot_travel_is_answered_by_the_server(
    pool: ChildPool, function: Callable[[Any, Means], object], question: object
) -> None:
    """Whoever asks does not notice; the operator does, by the log and a counter."""
    failures: list[None] = []
    searches = SearchProcesses(pool, on_failure=lambda: failures.append(None))

    with capture_logs() as logs:
        answer = ask(searches, function, question)

    assert answer == os.getpid() or answer() == 7  # type: ignore[operator]  # the function that was made
    assert len(failures) == 1
    assert [(line["event"], line["log_level"]) for line in logs] == [
        ("search.process_failed", "warning")
    ]


def test_a_process_that_dies_is_told_and_replaced(pool: ChildPool) -> None:
    """Its question is not tried in the server, which would die of it as well."""
    failures: list[None] = []
    searches = SearchProcesses(pool, on_failure=lambda: failures.append(None))

    with capture_logs(), pytest.raises(UnavailableError, match=r"ended by SIGSEGV.*ask again"):
        ask(searches, die, None)

    assert ask(searches, get_pid, None) not in {os.getpid(), None}
    assert len(failures) == 1


def test_a_system_that_starts_nothing_is_answered_by_the_server() -> None:
    """A fork server that ends at once gives no children."""
    pool = ChildPool(ChildStarter(["no.such.module"]), keeps=True)

    with capture_logs() as logs:
        answer = ask(SearchProcesses(pool), get_pid, None)

    pool.close()
    assert answer == os.getpid()
    assert len(logs) == 1


def test_a_server_that_stops_says_so() -> None:
    """A search that it ends is no failure, and not begun again."""
    pool = ChildPool(ChildStarter(SEARCH_MODULES), keeps=True)
    pool.close()

    with pytest.raises(UnavailableError, match="the server stops"):
        ask(SearchProcesses(pool), get_pid, None)


def test_a_limit_that_is_passed_is_a_refusal(pool: ChildPool) -> None:
    """What takes more memory than an answer may is not tried again in the server."""
    with pytest.raises(TooCostlyError, match="of memory"):
        ask(SearchProcesses(pool), take_memory, MEMORY_BYTES * 5 // 4)


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


def make_both(pool: ChildPool) -> tuple[SearchProcesses, SearchProcesses]:
    """Return processes that answer or fail, and none."""
    return SearchProcesses(pool, on_failure=pytest.fail), SearchProcesses()


def ask(
    searches: SearchProcesses,
    function: Callable[[Q, Means], A],
    question: Q,
    *,
    budget: Budget | None = None,
    corrections: CorrectionCache | None = None,
) -> A:
    """Return the answer for somebody who waits."""
    return searches.run(
        function,
        question,
        budget or make_budget(),
        plans=PlanCache(),
        corrections=corrections or CorrectionCache(read_changed=lambda _since: ()),
    )


def ask_version(pool: ChildPool, corrections: CorrectionCache) -> int:
    """Return the version of what a child looks in."""
    return ask(SearchProcesses(pool), get_version, None, corrections=corrections)


def make_budget(seconds: float = 30.0) -> Budget:
    """Return a budget of somebody who waits."""
    return Budget(seconds=seconds, check_caller=lambda: None)


def drop_times(document: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return an answer without what no two have alike."""
    match document:
        case dict():
            left_out = {"elapsed_s", "elapsed_ms", "request_id"}
            return {name: drop_times(document[name]) for name in document.keys() - left_out}
        case list():
            return [drop_times(item) for item in document]
        case _:
            return document
