"""The hook of the real API, as the controller reads it."""

from dataclasses import replace
from typing import Any

import anyio
import httpx
import pytest

from service.api.application import make_application
from service.api.resources.fit import FAST_ROUTE
from service.app import ROUTERS
from service.kueue.asking import Answer, Asker
from service.kueue.errors import AskError
from service.usecases.hooks.decision import HookVerdict, Mode
from tests.unit.api.builders import parts, patient_parts
from tests.unit.kueue.clusters import Json
from tests.unit.kueue.fakes import a_job, says

NEEDS_TWO = (
    "llama-2-7b --gpu A100-SXM4-80GB --task train --sequence-length 4096 --zero-stage 3 "
    "--activation-checkpointing full"
)


def ask(transport: httpx.AsyncBaseTransport, job: Json, mode: Mode = Mode.CHANGE) -> Answer:
    """Ask about a job over a transport."""

    async def main() -> Answer:
        async with httpx.AsyncClient(transport=transport, base_url="http://headroom") as client:
            return await Asker(client=client).ask([job], mode)

    return anyio.run(main)


def test_the_answer_of_a_server_is_read() -> None:
    """Verdict, GPU and patch, though another object owns the job."""
    app: Any = make_application(patient_parts(), handlers=ROUTERS, fast_route=FAST_ROUTE)
    job = {"apiVersion": "batch/v1", "kind": "Job", **a_job()}
    job["metadata"]["annotations"]["headroom.dev/question"] = NEEDS_TWO
    job["metadata"]["ownerReferences"] = [{"kind": "Run", "name": "r", "controller": True}]

    answer = ask(httpx.ASGITransport(app=app), job)

    assert (answer.allowed, answer.verdict) == (True, HookVerdict.DOES_NOT_FIT)
    assert answer.gpu == "A100-SXM4-80GB"
    assert answer.sentence.endswith("; it gets 2 x A100-SXM4-80GB")
    assert [operation["value"] for operation in answer.operations] == ["2"]


@pytest.mark.parametrize(
    ("response", "why"),
    [
        (httpx.Response(401, json={"detail": "no key"}), "answers 401: no key"),
        (httpx.Response(404, json={"detail": "Not Found"}), "older than this controller.*upgrade"),
        (httpx.Response(502, text="<html>"), "answers 502: <html>"),
        (httpx.Response(200, text="<html>"), "something else than a decision"),
        (httpx.Response(200, json={"response": {}}), "something else than a decision"),
        (httpx.Response(200, json=[]), "something else than a decision"),
        (httpx.Response(200, json={**says("fits"), "choice": 1}), "something else than a decision"),
    ],
    ids=[
        "no key",
        "an older server",
        "a proxy",
        "a page",
        "another document",
        "a list",
        "another's choice",
    ],
)
def test_whatever_is_no_answer_is_a_failure(response: httpx.Response, why: str) -> None:
    """In words that an operator can act on."""
    with pytest.raises(AskError, match=why):
        ask(httpx.MockTransport(lambda _request: response), a_job())


def test_a_server_that_is_not_there_is_a_failure() -> None:
    """The same, with its address."""

    def refuse(_request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(AskError, match="http://headroom does not answer: refused"):
        ask(httpx.MockTransport(refuse), a_job())


def test_a_busy_server_is_a_failure_and_an_unknown_model_an_answer() -> None:
    """Another try may be answered in time; none finds a model that does not exist."""
    made = parts()
    hurried = replace(made, settings=replace(made.settings, hook_deadline_s=1e-9))
    applications: list[Any] = [
        make_application(each, handlers=ROUTERS, fast_route=FAST_ROUTE) for each in (hurried, made)
    ]
    job = {"apiVersion": "batch/v1", "kind": "Job", **a_job()}
    job["metadata"]["annotations"]["headroom.dev/question"] = "no-such-model --gpu T4"
    known = {"apiVersion": "batch/v1", "kind": "Job", **a_job()}
    known["metadata"]["annotations"]["headroom.dev/question"] = NEEDS_TWO

    with pytest.raises(AskError, match=r"may say more at another try: no answer within 1e-09 s"):
        ask(httpx.ASGITransport(app=applications[0]), known)
    answer = ask(httpx.ASGITransport(app=applications[1]), job)

    assert (answer.allowed, answer.verdict) == (True, HookVerdict.UNKNOWN)
