"""Who answers a question: this process, or the server that a flag or a variable names."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.__main__ import main
from service.cli.answer_source import Source, get_source
from service.cli.command_table import build_parser
from service.cli.offline.fit import fit as fit_offline

FIT = ("gpt2", "--gpu", "L4", "--task", "train", "--sequence-length", "128")
URL = "http://elsewhere:1"
Asked = list[httpx.Request]


@pytest.fixture(name="asked")
def answer_everything(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Let every server answer as this process does, and return what is asked."""
    asked: Asked = []

    def answer(_: object, request: httpx.Request) -> httpx.Response:
        request.read()
        asked.append(request)
        return httpx.Response(200, json=fit_offline(json.loads(request.content), None))

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", answer)
    return asked


@pytest.mark.parametrize("command", ["fit", "how-many", "plan", "ceilings", "gpus", "families"])
def test_a_server_is_asked_where_one_is_named(
    monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """A flag before the variable, and `--offline` before both."""
    parse: Callable[[list[str]], Any] = build_parser(command).parse_args
    monkeypatch.delenv("HEADROOM_URL", raising=False)
    assert get_source(parse([])) == Source()

    monkeypatch.setenv("HEADROOM_URL", URL)
    assert get_source(parse([])) == Source(url=URL, named_by="HEADROOM_URL")
    assert get_source(parse(["--server", "http://b"])).url == "http://b"
    assert get_source(parse(["--offline"])) == Source()


def test_the_answer_says_who_gave_it(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The server's key goes along; its address stands under the answer, and so does that no server
    was asked.
    """
    monkeypatch.setenv("HEADROOM_URL", URL)
    monkeypatch.setenv("HEADROOM_API_KEY", "hr_1")
    assert main(["fit", *FIT]) == 0
    printed = capsys.readouterr().out
    assert printed.endswith(f"answered by {URL} (HEADROOM_URL)\n")
    assert asked[0].headers["authorization"] == "Bearer hr_1"
    assert str(asked[0].url) == f"{URL}/v1/fit"

    assert main(["fit", *FIT, "--offline"]) == 0
    assert "answered offline" in capsys.readouterr().out
    assert len(asked) == 1


def test_programs_read_the_answer_alone(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With `--json` who answered is told on stderr, where a variable decided it."""
    monkeypatch.setenv("HEADROOM_URL", URL)
    assert main(["fit", *FIT, "--json"]) == 0

    captured = capsys.readouterr()
    assert json.loads(captured.out)["verdict"] == "fits"
    assert captured.err == f"headroom: answered by {URL} (HEADROOM_URL)\n"
    assert len(asked) == 1


def test_a_server_that_is_away_is_told_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever set a variable once may not remember it."""
    monkeypatch.setenv("HEADROOM_URL", "http://127.0.0.1:1")

    assert main(["fit", *FIT]) == 2
    assert "--offline answers here" in capsys.readouterr().err


def test_a_config_in_a_file_goes_to_the_server_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A question of how many is asked by its body, as every other."""
    bodies = []

    def refuse(_: object, request: httpx.Request) -> httpx.Response:
        bodies.append((request.method, json.loads(request.read())["model"]))
        return httpx.Response(422, json={"type": "invalid-request", "detail": "no"})

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", refuse)
    monkeypatch.setenv("HEADROOM_URL", URL)
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "gpt2", "n_layer": 2}')

    assert main(["how-many", "--config", str(config), *FIT[1:], "--method", "lora"]) == 2
    assert bodies == [("POST", {"hf_config": {"model_type": "gpt2", "n_layer": 2}})]


@pytest.mark.parametrize(("flags", "code"), [((), 0), (("--strict",), 3)])
def test_tight_is_told_apart_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], code: int
) -> None:
    """A script may take what fits at the point, or not."""
    answer = fit_offline(
        {"model": "gpt2", "gpu": "L4", "workload": {"task": "train", "sequence_length": 128}}, None
    )
    monkeypatch.setattr("service.cli.offline.fit.fit", lambda *_: {**answer, "verdict": "tight"})
    assert main(["fit", *FIT, *flags]) == code

    monkeypatch.setattr("service.cli.offline.fit.fit", lambda *_: {**answer, "verdict": "fits"})
    assert main(["fit", *FIT, *flags]) == 0
    monkeypatch.setattr(
        "service.cli.offline.fit.fit", lambda *_: {**answer, "verdict": "does_not_fit"}
    )
    assert main(["fit", *FIT, *flags]) == 1
