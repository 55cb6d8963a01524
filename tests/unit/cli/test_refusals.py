"""Refusals for programs: with ``--json`` they are the problem document that the API sends."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
from litestar.testing import TestClient

from service.__main__ import main
from tests.unit.api.builders import FIT, changed, served

QUESTION = ("--gpu", "L4", "--task", "train", "--sequence-length", "128")


def refuse(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[dict[str, Any], str]:
    """Return the document on stdout and the line on stderr of a refused command."""
    with suppress(SystemExit):
        assert main([*arguments, "--json"]) == 2
    captured = capsys.readouterr()
    document: dict[str, Any] = json.loads(captured.out)
    return document, captured.err


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes."""
    with served() as client:
        yield client


@pytest.mark.parametrize(
    ("path", "value", "flags"),
    [
        ("gpu", "A100", ("--gpu", "A100")),
        ("workload.optimizer", "adam_w", ("--optimizer", "adam_w")),
        ("workload.kernels", "triton", ("--kernels", "triton")),
        ("layout.tensor_parallel", 3, ("--tensor-parallel", "3")),
        ("workload.micro_batch_size", -1, ("--micro-batch-size", "-1")),
        ("model", "llama 70b", ()),
    ],
)
def test_it_is_what_the_api_sends(
    client: TestClient[Any],
    capsys: pytest.CaptureFixture[str],
    path: str,
    value: object,
    flags: tuple[str, ...],
) -> None:
    """Member by member, in the API's words: a program reads one kind of refusal."""
    sent = client.post("/v1/fit", json=changed(path, value)).json()
    model = str(value) if path == "model" else "llama-2-7b"
    asked = ("--gpu", "A100-SXM4-80GB", "--task", "train", "--sequence-length", "4096")
    kept = [word for word in asked if path != "gpu" or word not in asked[:2]]
    printed, told = refuse(capsys, "fit", model, *kept, *flags)

    if path == "model":
        # Offline there is one place more to look.
        printed = json.loads(
            json.dumps(printed).replace(
                " What is stored on a server is found with --server URL.", ""
            )
        )
    assert printed == sent
    assert told.startswith("headroom: ")


@pytest.mark.parametrize(
    ("arguments", "slug", "says"),
    [
        (
            ("ceilings", "gpt2", "--gpu", "L4", "--maximize", "num_images"),
            "invalid-request",
            "which task?",
        ),
        (
            ("fit", "gpt2", "--gpu", "L4", "--engine", "vllm", "--micro-batch-size", "2"),
            "invalid-request",
            "which task?",
        ),
        (
            ("fit", "gpt2", *QUESTION, "--sequense-length", "1"),
            "invalid-request",
            "unknown argument",
        ),
        (("plan", "gpt2", *QUESTION[2:]), "invalid-request", "which GPUs?"),
        (("families", "bort"), "invalid-request", "Did you mean bert"),
        (("gpus", "A100-SXM4-80BG"), "unknown-gpu", "Did you mean A100-SXM4-80GB"),
        (("gpus", "M2"), "unknown-gpu", "is Apple silicon"),
        (("measure",), "invalid-request", ""),
    ],
)
def test_what_the_command_line_refuses_is_a_problem_too(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], slug: str, says: str
) -> None:
    """Type, title, status and detail, also where no request was made."""
    printed, told = refuse(capsys, *arguments)

    assert (printed["type"], printed["status"]) == (slug, 422)
    assert printed["instance"].startswith("/v1/")
    assert says in printed["detail"]
    assert printed["detail"] in told


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        (("--maximize", "num_sequences", "--output-tokens", "1"), "--prompt-tokens"),
        (("--maximize", "max_model_len"), "--num-sequences, --prompt-tokens"),
        (("--maximize", "micro_batch_size"), "--sequence-length"),
    ],
)
def test_words_of_one_task_name_it(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], missing: str
) -> None:
    """Without ``--task`` the other words tell it, and all that it lacks is said."""
    _, told = refuse(capsys, "ceilings", "gpt2", "--gpu", "L4", *arguments)

    assert told.startswith(f"headroom: {missing}: required and missing, such as ")


def test_a_servers_refusal_is_passed_on_as_it_was_sent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it says beside its detail; words for people are translated into flags."""
    sent = {"type": "x", "status": 409, "detail": "store it with PUT", "instance": "/v1/models"}
    monkeypatch.setattr(
        httpx.HTTPTransport, "handle_request", lambda *_: httpx.Response(409, json=sent)
    )
    printed, told = refuse(capsys, "models", "delete", "a", "--server", "http://server")

    assert printed == sent
    assert "store it with PUT" in told


def test_nobody_who_answers_is_a_problem(capsys: pytest.CaptureFixture[str]) -> None:
    """A server that is away is told from a request that is wrong."""
    printed, _ = refuse(capsys, "workers", "--server", "http://127.0.0.1:1")

    assert (printed["type"], printed["status"]) == ("unavailable", 503)


def test_without_json_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """For people the line on stderr is enough."""
    assert main(["fit", "gpt-9", *QUESTION]) == 2

    assert capsys.readouterr().out == ""


def test_the_api_is_asked_for_what_these_tests_compare(client: TestClient[Any]) -> None:
    """The question that the refusals above change is answered."""
    assert client.post("/v1/fit", json=FIT).status_code == 200
