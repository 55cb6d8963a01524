"""Files that strangers hand in, read in processes with limits."""

import base64
import json
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any
from unittest.mock import Mock

import psutil
import pytest
from litestar.testing import TestClient

from service.api.computing.budgets import Budget, TooCostlyError
from service.api.computing.reading import (
    FILE_MODULES,
    MOST_MEMORY_BYTES,
    SMALL_BYTES,
    FileReader,
)
from service.api.http.dependencies import Dependencies
from service.contract.schemas.imports.measurements import MAX_IMPORT_BYTES
from service.formats.measured.detect import parse
from service.formats.measured.reading import MeasuredFormatError
from service.runtime.children.pool import ChildPool, ReplyExceededError
from service.runtime.children.starting import ChildStarter
from tests.unit.api.builders import patient_parts, served

MIB = 2**20
LIMIT_BYTES = 32 * MIB
QUESTION = {
    "model": "llama-3.2-1b",
    "workload": {"task": "train", "sequence_length": 2048, "precision": "bf16"},
    "gpu": "A100-SXM4-80GB",
}
BOMB = b"\x80\x04(" + b"]" * 700_000 + b"l."
"""A pickle of empty lists: 0.7 MB that become 56."""
LOG = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.91 GiB.\n"
NODES = [
    {
        "name": f"n{number}",
        "state": ["IDLE"],
        "gres": "gpu:nvidia_a100-sxm4-80gb:8",
        "gres_used": "",
        "comment": "x" * 100,
        "real_memory": 1031000,
    }
    for number in range(400)
]

SCRIPT = (
    "#!/bin/bash\n" + "# what nobody runs\n" * 4000 + "vllm serve llama-2-7b --max-model-len 2048\n"
)
UNKNOWN = SCRIPT.replace("llama-2-7b", "nobody/has-this")
SLURM = {"gres": "gres/gpu:nvidia_a100-sxm4-80gb:1", "argv": ["job.sh"]}


@pytest.fixture(scope="module")
def deps() -> Iterator[Dependencies]:
    """Return the parts of an API that reads files in children."""
    starter = ChildStarter(FILE_MODULES)
    files = FileReader(ChildPool(starter, keeps=False), most_memory_bytes=LIMIT_BYTES)
    yield replace(patient_parts(), files=files)
    starter.close()


@pytest.fixture(scope="module")
def client(deps: Dependencies) -> Iterator[TestClient[Any]]:
    """Serve these parts."""
    with served(deps) as client:
        yield client


def encode_bomb() -> dict[str, Any]:
    """Return the bomb as a body has it."""
    return {"content_base64": base64.b64encode(BOMB).decode()}


@pytest.mark.parametrize("path", ["/v1/measurements/import", "/v1/explain"])
def test_a_bomb_is_refused_and_the_server_stays_as_it_was(
    client: TestClient[Any], path: str
) -> None:
    """The refusal says what a file of its size may take; the server has none of it in memory."""
    body = encode_bomb() | (QUESTION if path.startswith("/v1/measurements") else {})
    client.post(path, json=body | {"content_base64": "gA=="})
    before = psutil.Process().memory_info().rss

    answer = client.post(path, json=body)

    problem = answer.json()
    assert (answer.status_code, problem["type"]) == (422, "too-costly")
    assert "takes more than 32.00 MiB of memory" in problem["detail"]
    assert "send a part of it" in problem["detail"]
    assert psutil.Process().memory_info().rss - before < LIMIT_BYTES / 2
    assert client.get("/healthz").status_code == 200


def test_a_small_bomb_takes_little() -> None:
    """What is read in the server's process takes 80 bytes for each byte at most."""
    bomb = b"\x80\x04(" + b"]" * (SMALL_BYTES - 5) + b"l."
    tracemalloc.start()

    with pytest.raises(MeasuredFormatError):
        parse(bomb)

    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert SMALL_BYTES * 40 < peak_bytes <= SMALL_BYTES * 80 + MIB


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/explain", {"content": LOG + "a line that says nothing\n" * 4000}),
        ("/v1/explain", {"content": "a line that says nothing\n" * 4000}),
        ("/v1/measurements/import", QUESTION | {"content": "a line\n" * 20_000}),
        ("/v1/clusters/lab/import", {"content": {"nodes": NODES}}),
        ("/v1/clusters/lab/import", {"content": {"nodes": "x" * SMALL_BYTES}}),
        ("/v1/launches/import", {"files": [{"name": "run.sh", "content": SCRIPT}]}),
        ("/v1/launches/import", {"files": [{"name": "run.sh", "content": UNKNOWN}]}),
        ("/v1/launches/import", {"files": [{"name": "c.yaml", "content": "a: [" + "1," * 60_000}]}),
        ("/v1/hooks/slurm/warn", {"command": "sbatch", "options": SLURM, "script": SCRIPT}),
        ("/v1/hooks/slurm/warn", {"command": "sbatch", "options": SLURM, "script": UNKNOWN}),
    ],
)
def test_a_large_file_is_answered_as_in_the_servers_process(
    client: TestClient[Any], path: str, body: dict[str, Any]
) -> None:
    """Answers and refusals are the same to the byte."""
    assert len(json.dumps(body)) > SMALL_BYTES

    answer = client.post(path, json=body)

    with served(patient_parts()) as plain:
        expected = plain.post(path, json=body)
    assert (answer.status_code, _drop_id(answer.json())) == (
        expected.status_code,
        _drop_id(expected.json()),
    )


def test_a_month_of_samples_takes_as_much_as_a_file_may() -> None:
    """A matrix of Prometheus is read sample by sample: its largest import fits into a process."""
    values = ",".join(
        f'[{1_700_000_000 + 15 * number},"{20_000 + number % 977}"]' for number in range(20_000)
    )
    series = f'{{"metric":{{"__name__":"DCGM_FI_DEV_FB_USED","gpu":"0"}},"values":[{values}]}}'
    file = f'{{"status":"success","data":{{"resultType":"matrix","result":[{series}]}}}}'.encode()
    tracemalloc.start()

    parsed = parse(file)

    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert parsed.readings[0].num_samples == 20_000
    assert peak_bytes < 14 * len(file) < len(file) * (MOST_MEMORY_BYTES // MAX_IMPORT_BYTES)


def test_what_a_file_says_has_a_bound_of_its_own() -> None:
    """Who is refused for it learns that, and not that memory was short."""
    pool = Mock(spec=ChildPool)
    pool.call.side_effect = ReplyExceededError("returned more")
    budget = Budget(seconds=1.0, check_caller=lambda: None)

    with pytest.raises(TooCostlyError, match=r"say takes more than 16\.00 MiB.*in parts"):
        FileReader(pool).read(len, b"x" * (SMALL_BYTES + 1), budget)


def test_what_is_read_again_has_one_budget() -> None:
    """Earlier turns of a request leave less, and nothing at last."""
    pool = Mock(spec=ChildPool)
    budget = Budget(seconds=1.0, earlier_s=0.75, clock=lambda: 0.0, check_caller=lambda: None)
    body = b"x" * (SMALL_BYTES + 1)

    FileReader(pool).read(len, body, budget)
    assert pool.call.call_args.kwargs["limits"].processor_s == 0.25

    budget.add(0.25)
    with pytest.raises(TooCostlyError, match="takes more than 1 s of a processor"):
        FileReader(pool).read(len, body, budget)


def test_a_launch_that_asks_for_models_is_read_within_one_budget(
    client: TestClient[Any], deps: Dependencies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each model that it asks for is a turn of its own."""
    left: list[float] = []
    call = deps.files.call

    def spend(function: Any, num_bytes: int, budget: Budget) -> Any:  # noqa: ANN401 - of a file
        left.append(budget.count_left())
        budget.add(1.0)
        return call(function, num_bytes, budget)

    monkeypatch.setattr(deps.files, "call", spend)
    client.post("/v1/launches/import", json={"files": [{"name": "run.sh", "content": SCRIPT}]})

    assert len(left) > 1
    assert all(before - after >= 1.0 for before, after in pairwise(left))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/explain", {"content": "a line\n" * 20_000}),
        ("/v1/launches/import", {"files": [{"name": "run.sh", "content": SCRIPT}]}),
    ],
)
def test_what_a_file_took_counts_against_its_sender(
    client: TestClient[Any], deps: Dependencies, path: str, body: dict[str, Any]
) -> None:
    """The time of another process is counted as the server's own is."""
    before = deps.import_turns.get_usage("testclient")

    client.post(path, json=body)

    assert deps.import_turns.get_usage("testclient") > before


def test_a_request_beside_its_file_is_as_large_as_any_other(client: TestClient[Any]) -> None:
    """A model that is brought along has no room of 48 MB."""
    model = {"hf_config": {"model_type": "llama", "unread": [[]] * 400_000}}

    answer = client.post(
        "/v1/measurements/import", json=QUESTION | {"model": model, "content": LOG}
    )

    assert answer.status_code in {413, 422}
    assert answer.json()["type"] in {"body-too-large", "too-costly"}


def _drop_id(problem: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in problem.items() if name != "request_id"}
