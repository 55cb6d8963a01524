"""Budgets of questions: what takes more of a processor is refused, and what it took counts."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from service.access.keys import Principal, Scope
from service.api.computing.budgets import Budget, TooCostlyError
from service.api.http.computing import compute
from service.api.http.dependencies import Dependencies
from service.base.errors import TooManyRequestsError
from service.runtime.settings import Settings
from tests.unit.api.builders import FIT, parts, served

NO_TIME = replace(parts(), settings=Settings(question_budget_s=1e-6))
KEY = Principal(name="sweep", scopes=frozenset(Scope), key_id="7", rate="600/minute")
TOO_LARGE: dict[str, Any] = {**FIT, "gpu": "T4"}
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.91 GiB. GPU 0 has a total "
    "capacity of 14.61 GiB of which 1.99 GiB is free."
)
SEARCHED = {"model": FIT["model"], "workload": FIT["workload"]}


def spend(budget: Budget, seconds: float) -> None:
    """Let time of a processor pass."""
    now = budget.clock()
    budget.clock = lambda: now + seconds


def make_scope(principal: Principal | None = None) -> Any:  # noqa: ANN401 - a scope is a dict
    """Return the scope of somebody's request."""
    return {"state": {} if principal is None else {"principal": principal}, "client": ("::1", 1)}


def run_compute(deps: Dependencies, principal: Principal, seconds: float) -> None:
    """Compute something that takes so much of a processor."""

    def answer(budget: Budget) -> None:
        spend(budget, seconds)
        budget.check()

    asyncio.run(compute(deps, make_scope(principal), deps.search_turns, answer))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/fit", FIT),
        ("/v1/plans", {**SEARCHED, "gpus": ["H200"]}),
        ("/v1/how-many", {**SEARCHED, "gpu": "H200"}),
        ("/v1/ceilings", {**SEARCHED, "gpu": "H200", "maximize": "micro_batch_size"}),
        ("/v1/explain", {"content": OOM, "question": FIT}),
        (
            "/v1/pipelines/fit",
            {"pipeline": "flux.1-dev", "gpu": "L4", "workload": {"height": 512, "width": 512}},
        ),
    ],
)
def test_an_answer_past_its_budget_is_refused(path: str, body: dict[str, Any]) -> None:
    """It says what one question may take, and what would be smaller."""
    with served(NO_TIME) as client:
        answer = client.post(path, json=body)

    assert answer.status_code == 422
    assert answer.json()["type"] == "too-costly"
    assert answer.json()["budget_s"] == 1e-6
    assert "ask for fewer kinds of GPUs" in answer.json()["detail"]


def test_items_of_a_batch_are_refused_one_by_one() -> None:
    """Each has a problem of its own in its place."""
    with served(NO_TIME) as client:
        refused = client.post("/v1/fit/batch", json={"items": [FIT, TOO_LARGE], "detail": "full"})

    assert [item["problem"]["type"] for item in refused.json()["items"]] == ["too-costly"] * 2


def test_what_a_whole_batch_may_take_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left once the items took their share is refused, and says to be sent again."""
    monkeypatch.setattr("service.api.resources.batch_items.MAX_BUDGETS", 0)
    items = [{**FIT, "workload": {"task": "train", "sequence_length": n}} for n in (64, 128)]
    with served() as client:
        first, second = client.post("/v1/fit/batch", json={"items": items}).json()["items"]

    assert first["verdict"] == "does_not_fit"
    assert second["problem"]["type"] == "too-costly"
    assert "send this one in another batch" in second["problem"]["detail"]


def test_a_verdict_stands_where_remedies_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit is said, and why no change is proposed."""

    def give_up(*_arguments: object) -> None:
        message = "too long"
        raise TooCostlyError(message)

    monkeypatch.setattr("service.api.resources.fit_answers.add_fit_remedies", give_up)
    with served() as client:
        answer = client.post("/v1/fit", json=TOO_LARGE).json()

    assert answer["verdict"] == "does_not_fit"
    assert answer["remedies"] == []
    assert "takes more than 30 s of a processor" in answer["remedy_search"]["conclusion"]


def test_a_thread_that_waits_spends_nothing() -> None:
    """The first check starts the clock; only what passes after it counts."""
    budget = Budget(seconds=5.0, clock=lambda: 1000.0)
    started = budget.count()
    spend(budget, 4.0)

    assert started == 0.0
    assert budget.count() == 4.0


def test_a_long_answer_counts_as_several_requests() -> None:
    """Three seconds of a processor are thirty requests of a key's rate, and as long a turn."""
    charged: list[tuple[str, int]] = []
    deps = replace(
        parts(), charge_rate=lambda principal, number: charged.append((principal.name, number))
    )

    run_compute(deps, KEY, 3.04)

    assert charged == [("sweep", 30)]
    assert 2.9 < deps.search_turns.get_usage("7") < 3.1


def test_an_answer_that_is_there_is_not_refused_for_its_cost() -> None:
    """What is left of a rate is used up by halves; the next request is refused."""
    left = [9]

    def charge(_principal: Principal, number: int) -> None:
        if number > left[0]:
            message = "past the limit"
            raise TooManyRequestsError(message, retry_after_s=1)
        left[0] -= number

    run_compute(replace(parts(), charge_rate=charge), KEY, 3.04)

    assert left == [2]


def test_who_left_has_used_it_all_the_same() -> None:
    """What was computed for a caller who left counts against his next turn."""
    deps = parts()

    def answer(budget: Budget) -> None:
        spend(budget, 60.0)
        budget.check()

    with pytest.raises(TooCostlyError):
        asyncio.run(compute(deps, make_scope(KEY), deps.search_turns, answer))

    assert deps.search_turns.get_usage("7") > 59
