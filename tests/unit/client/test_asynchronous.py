"""The asynchronous client: the questions, refusals and retries of the other one."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import httpx
import pytest

from service.client.asynchronous import AsyncHeadroom
from service.client.errors import (
    InvalidRequestError,
    NotOverError,
    TooManyRequestsError,
    UnknownAnswerError,
    UnreachableError,
)
from service.client.headroom import Headroom
from service.client.retrying import Retries
from tests.unit.client.builders import Answer, Script, measurement, problem

GPU = {
    "name": "L4",
    "vendor": "nvidia",
    "family": "L4",
    "aliases": {},
    "capacity_bytes": 1,
    "usable_bytes": 1,
    "bandwidth_bytes_per_second": 1,
    "peak_flops": {},
    "link_bytes_per_second": 1,
    "nvlink_bytes_per_second": None,
    "pcie_bytes_per_second": 1,
    "mig_profiles": [],
    "compute_capability": "8.9",
    "gfx_target": None,
    "form": None,
    "has_unified_memory": False,
    "sources": {},
}
VERSION = {"name": "headroom", "version": "1.2.3", "python": "3.11"}
FIT: dict[str, Any] = {"workload": {"task": "train", "sequence_length": 8}, "gpu": "L4"}


def run(use: Callable[[AsyncHeadroom], Awaitable[None]], *answers: Answer) -> Script:
    """Let a client use a server that gives these answers, and return what it was asked."""
    script = Script(iter(answers))
    retries = Retries(attempts=3, first_s=0.0, most_s=5.0)

    async def main() -> None:
        async with AsyncHeadroom(
            "http://headroom.test",
            api_key="hr_k",
            retries=retries,
            http=httpx.MockTransport(script),
        ) as headroom:
            await use(headroom)

    anyio.run(main)
    return script


def test_it_asks_what_the_other_client_asks() -> None:
    """Every question, by the same name and with the same arguments."""
    questions = (
        "fit",
        "fit_many",
        "how_many",
        "plan",
        "ceiling",
        "explain",
        "dry_run",
        "accuracy",
        "version",
    )

    for name in questions:
        own, other = getattr(AsyncHeadroom, name), getattr(Headroom, name)
        assert list(inspect.signature(own).parameters) == list(inspect.signature(other).parameters)


def test_a_call_has_the_key_and_its_answer_a_type() -> None:
    """Values are those of the generated models."""

    async def use(headroom: AsyncHeadroom) -> None:
        assert (await headroom.version()).version == "1.2.3"

    script = run(use, httpx.Response(200, json=VERSION))

    assert script.asked[0].headers["authorization"] == "Bearer hr_k"


def test_pages_are_read_as_they_are_needed() -> None:
    """The second page is asked for behind the last item of the first."""

    async def use(headroom: AsyncHeadroom) -> None:
        names = [gpu.name async for gpu in headroom.gpus()]
        assert names == ["L4", "L40"]

    script = run(
        use,
        httpx.Response(200, json={"items": [GPU], "next_cursor": "c"}),
        httpx.Response(200, json={"items": [GPU | {"name": "L40"}], "next_cursor": None}),
    )

    assert [request.url.params.get("cursor") for request in script.asked] == [None, "c"]


def test_a_refusal_is_raised_and_an_outage_is_waited_for() -> None:
    """503 and a broken connection are tried again; what is wrong is wrong at once."""

    async def use(headroom: AsyncHeadroom) -> None:
        assert (await headroom.version()).name == "headroom"
        with pytest.raises(InvalidRequestError, match="no such GPU"):
            await headroom.fit("gpt2", **FIT)

    script = run(
        use,
        problem(503, "unavailable"),
        httpx.ConnectError("refused"),
        httpx.Response(200, json=VERSION),
        problem(422, "unknown-gpu", detail="no such GPU"),
    )

    assert len(script.asked) == 4


def test_what_does_not_come_back_is_told() -> None:
    """After every try; and a limit that lasts longer than the policy waits, with its end."""

    async def use(headroom: AsyncHeadroom) -> None:
        with pytest.raises(UnreachableError, match="was not reached"):
            await headroom.version()
        with pytest.raises(TooManyRequestsError) as refused:
            await headroom.version()
        assert refused.value.retry_after_s == 60

    run(
        use,
        *[httpx.ConnectError("refused")] * 3,
        problem(429, "too-many-requests", headers={"retry-after": "60"}),
    )


def test_a_measurement_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it is over, or until the time is."""
    monkeypatch.setattr("service.client.asynchronous.POLL_S", 0.0)

    async def use(headroom: AsyncHeadroom) -> None:
        assert (await headroom.wait("m1")).status == "succeeded"
        with pytest.raises(NotOverError):
            await headroom.wait("m1", timeout_s=0.0)

    run(
        use,
        httpx.Response(200, json=measurement("running")),
        httpx.Response(200, json=measurement("succeeded")),
        httpx.Response(200, json=measurement("running")),
    )


def test_a_dry_run_is_never_measured() -> None:
    """It is asked for by a name of its own, as with the other client."""

    async def use(headroom: AsyncHeadroom) -> None:
        with pytest.raises(ValueError, match="ask dry_run"):
            await headroom.measure({"dry_run": True})
        with pytest.raises(UnknownAnswerError, match="MeasurementAnswer where a DryRunAnswer"):
            await headroom.dry_run({})

    script = run(use, httpx.Response(202, json=measurement("queued")))

    assert len(script.asked) == 1
