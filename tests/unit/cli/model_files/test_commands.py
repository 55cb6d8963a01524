"""Commands about models at a place, without a server and with one."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.__main__ import main
from service.cli.commands import models as models_command
from tests.unit.formats.checkpoints.files import FOLDER, read_expected, read_model
from tests.unit.usecases.hub.fake_hub import CONFIG, PARAMETERS, make_safetensors

SERVE = (
    "--task",
    "serve",
    "--engine",
    "llama_cpp",
    "--num-sequences",
    "1",
    "--prompt-tokens",
    "64",
)
FILE = f"{FOLDER}/mixtral.gguf"


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """Return what a command printed as JSON."""
    main([*arguments, "--offline", "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_a_fit_takes_a_gguf_file(capsys: pytest.CaptureFixture[str]) -> None:
    """Its weights are the file's, and the first assumption names it."""
    found = answer(capsys, "fit", FILE, "--gpu", "L4", *SERVE)

    parts = {part["name"]: part["bytes"] for part in found["per_gpu"]["components"]}
    table = next(t.bytes for t in read_model("mixtral").tensors if t.name == "token_embd.weight")
    assert parts["weights"] == read_expected()["mixtral"]["bytes"] - table
    assert found["assumptions"][0] == f"model read from {FILE}"


@pytest.mark.parametrize(
    "command", [("plan", "--gpus", "L4"), ("ceilings", "--gpu", "L4"), ("how-many", "--gpu", "L4")]
)
def test_every_question_takes_a_place(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: tuple[str, ...]
) -> None:
    """A directory is named where a model is."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "model.safetensors").write_bytes(make_safetensors(all=PARAMETERS))
    name, *flags = command
    more = ["--maximize", "micro_batch_size"] if name == "ceilings" else []

    found = answer(
        capsys, name, str(tmp_path), *flags, *more, "--task", "train", "--sequence-length", "64"
    )

    lines = found.get("assumptions") or found["answers"][0]["assumptions"]
    assert f"model read from {tmp_path}" in lines


def test_a_draft_may_be_a_place_too(capsys: pytest.CaptureFixture[str]) -> None:
    """The draft's file is read as the model's is, and the answer says so."""
    draft = ("--speculative-draft", FILE, "--speculative-num-tokens", "2")

    found = answer(capsys, "fit", FILE, "--gpu", "L4", *SERVE, *draft)

    assert f"draft model read from {FILE}" in found["assumptions"]


def test_an_adapter_trains_as_itself(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Its directory stands for its base with its own rank."""
    adapter = {"base_model_name_or_path": "gpt2", "r": 8, "target_modules": ["c_attn"]}
    (tmp_path / "adapter_config.json").write_text(json.dumps(adapter))
    train = ("--gpu", "L4", "--task", "train", "--sequence-length", "64")

    found = answer(capsys, "fit", str(tmp_path), *train)
    said = ("--method", "lora", "--lora-rank", "8", "--lora-target-modules", "c_attn")
    spelled = answer(capsys, "fit", "gpt2", *train, *said)

    assert found["per_gpu"] == spelled["per_gpu"]


@contextmanager
def record(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[httpx.Request]]:
    """Put a server behind `headroom models`, which stores what it is sent."""
    requests: list[httpx.Request] = []

    def store(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        counts = {"by_module": {}, "total": 1, "active": 1}
        model = {"name": "mine", "family": "llama", "revision": 1, "parameters": counts}
        return httpx.Response(
            201, json={**model, "weight_bytes": {"bf16": 2}, "gguf": None, "warnings": []}
        )

    client = httpx.Client(transport=httpx.MockTransport(store), base_url="http://server")
    monkeypatch.setattr(models_command, "connect", lambda _server: client)
    yield requests


def test_push_sends_headers_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is posted is the document of the file: no tensor, no path of this machine."""
    with record(monkeypatch) as requests:
        code = main(["models", "push", FILE, "--name", "mine"])

    body = json.loads(requests[0].content)
    assert (code, requests[0].url.path) == (0, "/v1/models")
    assert body == {"name": "mine", "source": {"gguf": read_model("mixtral").describe()}}
    assert "mine" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("push",), "push needs a place and a name"),
        (("push", FILE), "push needs a place and a name"),
        (("push", "llama-2-7b", "--name", "mine"), "push needs a place and a name"),
        (("push", FILE, "--name", "mine", "--config", "x.json"), "takes no --config"),
        (("add", "mine", "--name", "other"), "takes no --name"),
    ],
)
def test_push_says_what_it_needs(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    """A place, a name to store it under, and nothing else."""
    code = main(["models", *arguments])

    assert code != 0
    assert words in capsys.readouterr().err
