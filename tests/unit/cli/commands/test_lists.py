"""Lists without a server, and those that only a server has."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from litestar.testing import TestClient

from service.__main__ import main
from service.catalog.gpus import list_gpus
from service.catalog.models import list_all_models, list_recorded_models
from service.estimator.model.families.registry import list_model_types
from tests.unit.api.builders import served

WORKER = {
    "name": "w1",
    "host": "node-7",
    "state": "busy",
    "devices": [{"kind": "cuda", "sku": "H200-SXM5-141GB"}],
    "current_job": "job-1",
    "last_heartbeat": "2026-01-01T00:00:00Z",
}
CHANGE = {
    "at": "2026-01-01T00:00:00Z",
    "principal": "ci",
    "operation": "createModel",
    "method": "POST",
    "path": "/v1/models",
    "status": 201,
    "peer": "127.0.0.1",
}

DECISION = {
    "at": "2026-01-01T00:00:00Z",
    "num_times": 3,
    "door": "slurm",
    "user": "ann",
    "queue": None,
    "job": "tune",
    "verdict": "does_not_fit",
    "action": "refuse",
    "sentence": "headroom: does not fit",
}


@pytest.fixture(autouse=True)
def forget_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name no server."""
    monkeypatch.delenv("HEADROOM_URL", raising=False)


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes."""
    with served() as client:
        yield client


def print_items(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    """Return what a command prints as JSON."""
    assert main([*arguments, "--json"]) == 0
    items: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return items


@pytest.mark.parametrize("name", ["gpus", "families", "formats"])
def test_a_list_is_what_the_api_sends(
    client: TestClient[Any], capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Item by item, without a server."""
    sent = client.get(f"/v1/{name}?limit=200").json()

    assert print_items(capsys, name) == sent["items"]
    assert sent["next_cursor"] is None


def test_every_name_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """GPUs, families and models, as tables."""
    for command, names in (
        (["gpus"], [entry.name for entry in list_gpus()]),
        (["families"], list_model_types()),
        (["models", "--offline"], [entry.name for entry in list_all_models()]),
    ):
        assert main(command) == 0
        printed = capsys.readouterr().out
        assert [name for name in names if name not in printed] == []


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("h200-sxm5-141gb", ["H200-SXM5-141GB"]),
        ("NVIDIA A100-SXM4-80GB", ["A100-SXM4-80GB"]),
        ("V100", ["V100-SXM2-16GB", "V100-SXM2-32GB"]),
        ("4090", ["RTX-4090"]),
        ("RTX4090 24GB", ["RTX-4090"]),
        ("A100-SXM4-80GB/1g.10gb", ["A100-SXM4-80GB"]),
    ],
)
def test_a_gpu_is_shown_by_any_of_its_names(
    capsys: pytest.CaptureFixture[str], name: str, names: list[str]
) -> None:
    """As a question spells it: a name, an alias, a MIG slice, or a family, which is several."""
    assert [item["name"] for item in print_items(capsys, "gpus", name)][: len(names)] == names


def test_one_gpu_is_shown_with_its_sources(capsys: pytest.CaptureFixture[str]) -> None:
    """Every figure, who calls it how, and what MIG cuts it into."""
    assert main(["gpus", "A100-SXM4-80GB"]) == 0

    printed = capsys.readouterr().out
    assert "NVIDIA A100 datasheet" in printed
    assert "1g.10gb" in printed
    assert "called by nvml: NVIDIA A100-SXM4-80GB" in printed


def test_one_family_is_shown_with_its_refusals(capsys: pytest.CaptureFixture[str]) -> None:
    """What trains and serves it, and why nothing else does."""
    assert main(["families", "mamba"]) == 0

    printed = " ".join(capsys.readouterr().out.split())
    assert "trained by: transformers full" in printed
    assert "whose layers keep a state" in printed


def test_the_catalogue_is_shown_where_no_server_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody named one: the list is this installation's, and says so."""
    monkeypatch.setattr("service.cli.http.DEFAULT_SERVER", "http://127.0.0.1:1")
    assert main(["models", "show", "Llama-2 7b", "--json"]) == 0

    captured = capsys.readouterr()
    assert json.loads(captured.out)["name"] == "llama-2-7b"
    assert "the catalogue of this installation; no server answers" in captured.err


def test_a_server_that_is_named_is_not_replaced(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its stored models are meant, and the catalogue has none."""
    monkeypatch.setenv("HEADROOM_URL", "http://127.0.0.1:1")

    assert main(["models"]) == 2
    assert "no server answers" in capsys.readouterr().err


def test_what_a_server_alone_can_do_is_refused_offline(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is stored in the catalogue, and a size is no model of it."""
    assert main(["models", "add", "a", "--offline"]) == 2
    assert "leave out --offline" in capsys.readouterr().err
    assert main(["models", "show", "13B", "--offline"]) == 2
    assert "'13B' is a size" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "item", "shown"),
    [
        ("workers", WORKER, ["w1", "node-7", "busy", "H200-SXM5-141GB", "job-1"]),
        ("audit", CHANGE, ["ci", "createModel", "POST /v1/models", "201"]),
        ("hooks", DECISION, ["slurm", "ann", "does_not_fit", "refuse (3 times)"]),
    ],
)
def test_a_servers_lists_are_shown(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    item: dict[str, Any],
    shown: list[str],
) -> None:
    """As a table, as JSON, and in words where there is nothing."""
    items = [item]
    page = lambda *_: httpx.Response(200, json={"items": items, "next_cursor": None})  # noqa: E731
    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", page)

    assert main([command]) == 0
    printed = capsys.readouterr().out
    assert [text for text in shown if text not in printed] == []
    assert print_items(capsys, command) == [item]
    items.clear()
    assert main([command]) == 0
    assert capsys.readouterr().out.startswith("no ")


def test_an_audit_stops_at_its_limit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Page by page, and no page more than is asked for."""
    limits: list[str] = []

    def answer(_: object, request: httpx.Request) -> httpx.Response:
        limits.append(request.url.params["limit"])
        items = [CHANGE] * int(request.url.params["limit"])
        return httpx.Response(200, json={"items": items, "next_cursor": "next"})

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", answer)

    assert len(print_items(capsys, "audit", "--limit", "250")) == 250
    assert limits == ["200", "50"]


def test_help_is_that_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Of one, of all, and of none that there is."""
    assert main(["help", "gpus"]) == 0
    assert capsys.readouterr().out.startswith("usage: headroom gpus")
    assert main(["help"]) == 0
    assert "completion" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["help", "gpsu"])
    assert "Did you mean 'gpus'?" in capsys.readouterr().err


def test_a_recorded_type_is_a_family_too(capsys: pytest.CaptureFixture[str]) -> None:
    """What recordings answer for is counted below the families, and shown by its type."""
    assert main(["families"]) == 0
    listed = capsys.readouterr().out
    assert main(["families", "lfm2-vl"]) == 0
    shown = capsys.readouterr().out

    types = {model.model_type for model in list_recorded_models()}
    assert f"{len(types)} further types are answered from recordings" in " ".join(listed.split())
    assert "models of the catalogue: lfm2-vl-default" in shown
    assert "headroom fit lfm2-vl-default" in shown
