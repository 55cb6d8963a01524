"""The hook of the controller for Kueue: one decision about a job, however it may run."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from litestar.testing import TestClient

from service.usecases.hooks.log import HookDecision
from tests.unit.api.builders import patient_parts, served
from tests.unit.api.resources.hooks.searches import CountedSearches, EndlessSearches

A100, T4 = "NVIDIA-A100-SXM4-80GB", "Tesla-T4"
TOO_LARGE = "llama-2-7b --task train --sequence-length 4096 --zero-stage 3"
LORA = "llama-3.1-8b --task train --method lora --sequence-length 2048"


class Door:
    """A server that the controller asks, and what it wrote down."""

    def __init__(self, client: TestClient[Any], written: list[HookDecision]) -> None:
        """Ask through ``client``; the server writes into ``written``."""
        self._client = client
        self._written = written

    def ask(self, mode: str, *objects: object, **members: object) -> tuple[Any, list[HookDecision]]:
        """Return the answer, and what was written down of it."""
        self._written.clear()
        body = {"objects": objects, **members}
        answer = self._client.post(f"/v1/hooks/kueue/{mode}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json(), list(self._written)


@pytest.fixture(scope="module", name="door")
def start() -> Iterator[Door]:
    """Serve the API over fakes for the tests of this file."""
    written = list[HookDecision]()
    with served(replace(patient_parts(), record_decision=written.append)) as client:
        yield Door(client, written)


def a_job(words: str, product: str = A100, gpus: int = 1) -> dict[str, Any]:
    """Return a Job that says its question, on a kind of GPU."""
    selector = {"nvidia.com/gpu.product": product}
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    annotations = {"headroom.dev/question": words}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "tune", "namespace": "ml", "annotations": annotations},
        "spec": {"template": {"spec": {"containers": [container], "nodeSelector": selector}}},
    }


@pytest.mark.parametrize(
    ("mode", "action", "operations"),
    [("warn", "warn", 0), ("refuse", "refuse", 0), ("change", "change", 1)],
)
def test_a_decision_says_its_mode_and_what_became_of_the_job(
    door: Door, mode: str, action: str, operations: int
) -> None:
    """In its answer, and in the row that an operator reads."""
    question = f"{TOO_LARGE} --activation-checkpointing full"

    answer, [row] = door.ask(mode, a_job(question))

    assert (answer["verdict"], answer["action"]) == ("does_not_fit", action)
    assert "2 x A100-SXM4-80GB" in answer["sentence"]
    assert len(answer["operations"]) == operations
    assert (row.door, row.mode, row.action, row.job_name, row.queue) == (
        "kueue",
        mode,
        action,
        "tune",
        "ml",
    )


@pytest.mark.parametrize(
    ("products", "choice", "verdict"),
    [
        ((T4, A100), 1, "fits"),
        ((A100, T4), 0, "fits"),
        ((T4, T4), 1, "does_not_fit"),
        (("Some-Other-GPU", T4), 0, "unknown"),
        ((T4, "Some-Other-GPU"), 1, "unknown"),
        (("Some-Other-GPU", A100), 1, "fits"),
    ],
)
def test_alternatives_are_one_decision(
    door: Door, products: tuple[str, ...], choice: int, verdict: str
) -> None:
    """The first that fits; else one that may, of which nothing is known; else the last."""
    answer, [row] = door.ask("refuse", *(a_job(LORA, product) for product in products))

    assert (answer["choice"], answer["verdict"]) == (choice, verdict)
    assert (row.verdict, row.action) == (answer["verdict"], answer["action"])


@pytest.mark.parametrize(("is_placed", "verdict"), [(False, "fits"), (True, "does_not_fit")])
def test_a_job_that_has_its_nodes_is_judged_on_their_gpu(
    door: Door, *, is_placed: bool, verdict: str
) -> None:
    """Its question names the GPU that it hoped for."""
    job = a_job(f"{LORA} --gpu A100-SXM4-80GB", T4)

    answer, [row] = door.ask("refuse", job, is_placed=is_placed)

    gpu = "T4" if is_placed else "A100-SXM4-80GB"
    assert (answer["verdict"], answer["gpu"], row.gpu) == (verdict, gpu, gpu)


def test_a_pin_is_of_the_gpu_that_was_judged(door: Door) -> None:
    """Not of the cheaper one that comes first, on the word of the question."""
    question = f"{LORA} --gpu A100-SXM4-80GB"

    answer, _ = door.ask("refuse", a_job(question, T4), a_job(question), is_placed=True)

    assert (answer["choice"], answer["verdict"]) == (1, "fits")


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (a_job("no-such-model --task train --sequence-length 64"), "no-such-model"),
        (a_job(LORA) | {"spec": {}}, "container"),
    ],
    ids=["an unknown model", "no pods"],
)
@pytest.mark.parametrize(("is_closed", "action"), [(False, "warn"), (True, "refuse")])
def test_what_cannot_be_said_is_refused_where_the_controller_wants_that(
    door: Door, job: dict[str, Any], words: str, *, is_closed: bool, action: str
) -> None:
    """Though this server lets it pass; the row says which job it was."""
    answer, [row] = door.ask("change", job, fails_closed=is_closed)

    assert (answer["verdict"], answer["action"]) == ("unknown", action)
    assert words in answer["sentence"]
    assert (row.job_name, row.action) == ("tune", action)


def test_a_changed_job_is_known_by_what_it_runs_as(door: Door) -> None:
    """Its nodes measure it on the GPUs that it gets; its line links to what was asked."""
    words = f"{TOO_LARGE} --activation-checkpointing full"
    _, [submitted] = door.ask("refuse", a_job(words))

    _, [changed] = door.ask("change", a_job(words))

    _, [running] = door.ask("refuse", a_job(words, gpus=2))
    assert changed.before == (submitted.digest, submitted.question)
    assert (changed.digest, changed.question) == (running.digest, running.question)
    assert running.before is None


def test_a_job_without_gpus_passes_without_a_row(door: Door) -> None:
    """Nothing was decided about it."""
    job = a_job(LORA, gpus=0)
    del job["metadata"]["annotations"]

    answer, rows = door.ask("refuse", job)

    assert (answer["verdict"], answer["action"], rows) == ("none", "allow", [])


def test_a_busy_server_decides_nothing() -> None:
    """Whoever asks again may be answered: no row says that the job passed."""
    written = list[HookDecision]()
    made = patient_parts()
    hurried = replace(made.settings, hook_deadline_s=1e-9)
    with served(replace(made, settings=hurried, record_decision=written.append)) as client:
        body = {"objects": [a_job(LORA)]}
        answer = client.post("/v1/hooks/kueue/refuse", json=body).json()

    assert (answer["is_transient"], answer["verdict"], written) == (True, "unknown", [])


@pytest.mark.parametrize(("mode", "action"), [("change", "refuse"), ("warn", "warn")])
def test_a_number_that_is_not_found_yet_is_asked_for_again(mode: str, action: str) -> None:
    """By the controller, not by the job's user; what is decided without it has its row."""
    written = list[HookDecision]()
    made = replace(patient_parts(), way_outs=EndlessSearches(), record_decision=written.append)
    with served(made) as client:
        body = {"objects": [a_job(f"{TOO_LARGE} --activation-checkpointing full")]}
        answer = client.post(f"/v1/hooks/kueue/{mode}", json=body).json()
        early = list(written)
        last = client.post(f"/v1/hooks/kueue/{mode}", json={**body, "is_last": True}).json()

    assert (answer["verdict"], answer["is_transient"], early) == ("does_not_fit", True, [])
    assert (last["verdict"], last["action"], last["is_transient"]) == (
        "does_not_fit",
        action,
        False,
    )
    assert [row.sentence for row in written] == [last["sentence"]]
    assert last["sentence"].endswith("; how many GPUs it needs is not known yet")


def test_a_number_is_looked_for_on_the_last_alternative_alone() -> None:
    """Nobody reads those of the others."""
    searches = CountedSearches()
    with served(replace(patient_parts(), way_outs=searches)) as client:
        objects = [a_job(TOO_LARGE, product) for product in (T4, "NVIDIA-L4", A100)]
        answer = client.post("/v1/hooks/kueue/refuse", json={"objects": objects}).json()

    assert (answer["choice"], answer["verdict"]) == (2, "does_not_fit")
    assert searches.num_begun == 1
