"""Searches asked again: from kept answers, for as long as all that they rest on is the same."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast
from uuid import uuid4

import httpx
import pytest
from litestar.testing import TestClient

from service.api.application import make_application
from service.api.computing.turns import Turns
from service.app import ROUTERS
from service.planner.cluster.inventory import ClusterInventory, Pool
from service.usecases.clusters import reservations
from service.usecases.learning.corrections import CorrectionCache
from service.usecases.operations.metrics_snapshot import NO_READING
from service.usecases.stored import StoredCluster
from tests.unit.api.builders import FIT, parts, served
from tests.unit.api.repeated.test_repeated_fits import FakeModels, learn, with_models
from tests.unit.usecases.builders import TINY_LLAMA

Client = TestClient[Any]
Ask = Callable[..., httpx.Response]
QUESTION: dict[str, Any] = {
    "model": {"hf_config": TINY_LLAMA},
    "workload": {"task": "train", "sequence_length": 64},
    "gpu": "H200",
    "constraints": {"max_gpus": 2},
}
PLAN = {name: value for name, value in QUESTION.items() if name != "gpu"} | {"gpus": ["H200"]}
CEILING = {name: value for name, value in QUESTION.items() if name != "constraints"} | {
    "maximize": "micro_batch_size"
}
WORDS = "/v1/how-many?model=mine&gpu=H200&task=train&sequence_length=64&max_gpus=2"


def get_count(client: Client, **headers: str) -> httpx.Response:
    """Ask by a query for a number of GPUs."""
    return client.get(WORDS.replace("mine", "gpt2"), headers=headers)


def poster(path: str, body: object) -> Ask:
    """Return who asks by a body."""
    return lambda client, **headers: client.post(path, json=body, headers=headers)


ASKERS = {
    "a query": get_count,
    "a body": poster("/v1/how-many", QUESTION),
    "plans": poster("/v1/plans", PLAN),
    "ceilings": poster("/v1/ceilings", CEILING),
}


class CountingTurns(Turns):
    """Turns that count who took one."""

    def __init__(self, slots: int = 1) -> None:
        """Start with free slots."""
        super().__init__(slots)
        self.num_taken = 0

    def count(self, asker: str, seconds: float) -> None:
        """Count one more."""
        self.num_taken += 1
        super().count(asker, seconds)


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[Client]:
    """Serve the API over fakes for the tests of this file that change nothing."""
    with served() as client:
        yield client


def count_kept(client: Client) -> float:
    """Return how many searches were answered with what was kept."""
    return sum(
        float(line.rpartition(" ")[2])
        for line in client.get("/metrics").text.splitlines()
        if line.startswith("headroom_cached_searches_total{")
    )


def ask_again(client: Client, ask: Ask, **headers: str) -> tuple[httpx.Response, bool]:
    """Return an answer, and whether it was kept."""
    before = count_kept(client)
    return ask(client, **headers), count_kept(client) > before


@pytest.mark.parametrize("name", ASKERS)
def test_the_second_time_it_is_kept(client: Client, name: str) -> None:
    """The same bytes, down to how long the search took; with their tag they are not sent again."""
    first, kept_first = ask_again(client, ASKERS[name])
    second, kept_second = ask_again(client, ASKERS[name])
    known = ASKERS[name](client, **{"if-none-match": first.headers["etag"]})
    other = ASKERS[name](client, **{"if-none-match": '"another"'})

    assert (kept_first, kept_second) == (False, True)
    assert (first.status_code, first.content) == (200, second.content)
    assert first.headers["etag"] == second.headers["etag"]
    assert (known.status_code, known.content) == (304, b"")
    assert known.headers["etag"] == first.headers["etag"]
    assert other.content == first.content


def test_who_asks_meanwhile_shares_it() -> None:
    """With a turn free for each of them it is computed once: even its times are equal."""
    turns = CountingTurns(3)
    deps = replace(parts(), search_turns=turns)

    async def ask_at_once() -> list[httpx.Response]:
        transport = httpx.ASGITransport(cast("Any", make_application(deps, handlers=ROUTERS)))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await asyncio.gather(
                *[client.post("/v1/how-many", json=QUESTION) for _ in range(3)]
            )

    answers = asyncio.run(ask_at_once())
    told = deps.metrics.render(NO_READING).decode().splitlines()
    counted = [line.partition("{") for line in told if 'question="how_many"' in line]

    assert (
        sum(
            float(rest.rpartition(" ")[2])
            for name, _, rest in counted
            # Who came when it was over has what is kept.
            if name in {"headroom_shared_searches_total", "headroom_cached_searches_total"}
        )
        == 2
    )
    assert [answer.status_code for answer in answers] == [200] * 3
    assert len({answer.content for answer in answers}) == 1
    assert turns.num_taken == 1


def test_how_it_is_spelled_does_not_matter(client: Client) -> None:
    """A query and a body mean the same, in any order of their members."""
    body = {**QUESTION, "model": "gpt2"}
    turned = dict(reversed(body.items()))
    ask_again(client, get_count)
    answers = [ask_again(client, poster("/v1/how-many", said)) for said in (body, turned)]

    assert [kept for _, kept in answers] == [True, True]
    assert len({answer.content for answer, _ in answers}) == 1


def test_each_form_has_its_own_answer(client: Client) -> None:
    """A bare number is kept beside the JSON, and a shell's number is taken from the JSON."""
    spelled, _ = ask_again(client, get_count)
    text, _ = ask_again(client, get_count, accept="text/plain")
    again, was_kept = ask_again(client, get_count, accept="text/plain")
    counted = client.get(WORDS.replace("mine", "gpt2") + "&as=count")

    assert spelled.json()["num_gpus"] == 1
    assert (text.text, again.text, was_kept) == ("1\n", "1\n", True)
    assert text.headers["etag"] != spelled.headers["etag"]
    assert again.headers["content-type"].startswith("text/plain")
    assert counted.text == "1\n"


def test_that_nothing_fits_is_said_again(client: Client) -> None:
    """A shell is refused each time, whatever it says it has."""
    asked = (
        "/v1/how-many?model=llama-2-70b&gpu=T4&task=serve&engine=vllm&num_sequences=1"
        "&prompt_tokens=8&max_gpus=1&as=count"
    )
    refused = [client.get(asked, headers={"if-none-match": "*"}) for _ in range(2)]

    assert [answer.status_code for answer in refused] == [406, 406]
    assert refused[0].json()["type"] == "nothing-fits"


def test_a_new_revision_has_an_answer_of_its_own() -> None:
    """Stored under the same name, and asked in the same words."""
    models = FakeModels()
    deps = with_models(models)
    with served(deps) as client:
        answers = [ask_again(client, lambda client: client.get(WORDS)) for _ in range(2)]
        models.depth = 8
        deps.specs.forget("mine")
        answers += [ask_again(client, lambda client: client.get(WORDS)) for _ in range(2)]

    assert [kept for _, kept in answers] == [False, True, False, True]
    small, _, large, _ = (answer.json()["candidates"][0] for answer, _ in answers)
    assert small["allocated_bytes"] < large["allocated_bytes"]


def test_what_is_learnt_and_withdrawn_ends_what_is_kept() -> None:
    """As soon as the process has read it."""
    stored: list[Any] = []
    corrections = CorrectionCache(read_changed=lambda _since: tuple(stored))
    fixed = {"micro_batch_size": 1, "activation_checkpointing": "none"}
    ask = poster("/v1/how-many", {**QUESTION, "workload": QUESTION["workload"] | fixed})
    found = []
    with served(replace(parts(), corrections=corrections)) as client:
        for is_withdrawn in (None, False, True):
            if is_withdrawn is not None:
                stored.append(learn(is_withdrawn=is_withdrawn, minute=len(stored)))
            corrections.refresh()
            found += [ask_again(client, ask) for _ in range(2)]

    assert [kept for _, kept in found] == [False, True] * 3
    before, learnt, withdrawn = (found[number][0].json() for number in (0, 2, 4))
    assert before["candidates"] == withdrawn["candidates"] != learnt["candidates"]


def test_searches_displace_no_fit() -> None:
    """However many are asked once: their answers are kept beside those of fits."""
    deps = parts()
    with served(deps) as other:
        for _ in range(2):
            other.post("/v1/fit", json=FIT)
        kept_bytes = deps.answers.num_bytes
        ask_again(other, poster("/v1/ceilings", CEILING))
        told = other.get("/metrics").text.splitlines()

    assert deps.answers.num_bytes == kept_bytes > 0
    assert deps.search_answers.num_bytes > 0
    assert f"headroom_answer_cache_bytes {float(kept_bytes)}" in told
    assert f"headroom_search_cache_bytes {float(deps.search_answers.num_bytes)}" in told


def test_a_cluster_is_built_at_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand nodes take tenths of a second, which count against who asks; reading their rows
    waits for the database, and takes no turn.
    """
    turns = CountingTurns()
    moment = datetime(2026, 11, 1, tzinfo=UTC)
    cluster = StoredCluster(
        id=uuid4(),
        name="c",
        version=1,
        inventory=ClusterInventory(
            pools=(Pool(name="p", gpu="H200", gpus_per_node=8, num_nodes=1),)
        ),
        created_at=moment,
        updated_at=moment,
    )
    question = {name: value for name, value in PLAN.items() if name != "gpus"} | {"cluster": "c"}
    with served(replace(parts(), cluster_turns=turns)) as client:
        client.post("/v1/plans", json=PLAN)
        away = client.post("/v1/plans", json=question)
        before = turns.num_taken
        monkeypatch.setattr(reservations, "fetch_snapshot", lambda *_: lambda: cluster)
        answer = client.post("/v1/plans", json=question)

    assert (away.status_code, before) == (503, 0)
    assert (answer.status_code, turns.num_taken) == (200, 1)
