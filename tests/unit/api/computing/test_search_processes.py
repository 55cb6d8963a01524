"""Costly answers, computed in processes beside the server's."""

import gzip
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
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
from service.base.errors import UnavailableError
from service.catalog.pipelines import shipped
from service.runtime.children.pool import ChildPool
from service.runtime.children.starting import ChildStarter
from service.usecases.learning.corrections import CorrectionCache
from tests.tiny_models import tiny_config
from tests.unit.api.builders import FIT, parts, served
from tests.unit.api.computing.asking import ask, drop_times, make_both, make_budget
from tests.unit.api.computing.functions import (
    die,
    get_pid,
    get_version,
    list_loaded,
    make_function,
    spend,
    take_memory,
)

Q = TypeVar("Q")
A = TypeVar("A")
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
SMALL = {"hf_config": tiny_config("llama")}
LIMITS = {"max_gpus": 8, "gpus_per_node": 8}
SEARCH = {"workload": FIT["workload"], "gpus": [FIT["gpu"]], "constraints": LIMITS}
COUNT = {"workload": FIT["workload"], "gpu": FIT["gpu"]}
MAXIMUM = COUNT | {"maximize": "micro_batch_size"}
FAILURE = {
    "content": (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.91 GiB. GPU 2 has a total "
        "capacity of 14.61 GiB of which 1.99 GiB is free. Including non-PyTorch memory, this "
        "process has 12.62 GiB memory in use. Of the allocated memory 8.50 GiB is allocated by "
        "PyTorch, and 3.96 GiB is reserved by PyTorch but unallocated."
    )
}
CALL = {"workload": {"task": "generate", "height": 512, "width": 512}, "gpu": FIT["gpu"]}


def load_recording() -> dict[str, object]:
    """Return a pipeline's recording as somebody posts it."""
    file = Path(shipped.__file__).with_name("stable-diffusion-1.5.json.gz")
    document: dict[str, object] = json.loads(gzip.decompress(file.read_bytes()))
    return document


@pytest.fixture(scope="module")
def client(pool: ChildPool) -> Iterator[TestClient[Any]]:
    """Serve an API that computes there."""
    searches, _ = make_both(pool)
    with served(replace(parts(), searches=searches)) as client:
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
        ("/v1/fit", FIT | {"model": SMALL, "gpu": {"memory_bytes": 2**28}}),
        ("/v1/formats/slurm", FIT | {"model": HYBRID}),
        ("/v1/explain", FAILURE | {"question": FIT | {"model": HYBRID, "gpu": "T4"}}),
        ("/v1/pipelines/fit", CALL | {"pipeline": {"recording": load_recording()}}),
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
    searches = SearchProcesses(pool, memory_bytes=MEMORY_BYTES // 4)

    with pytest.raises(TooCostlyError, match=r"more than 256\.00 MiB of memory"):
        ask(searches, take_memory, MEMORY_BYTES // 4 * 5 // 4)


def ask_version(pool: ChildPool, corrections: CorrectionCache) -> int:
    """Return the version of what a child looks in."""
    return ask(SearchProcesses(pool), get_version, None, corrections=corrections)
