"""The command line against a running service: what is stored, asked and measured there."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cli.conftest import Running, Up, environment
from tests.running.forked import make_probe_command, run_forked

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 4,
    "vocab_size": 256,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}
QUESTION = ("tiny", "--gpu", "A100-SXM4-80GB", "--task", "train", "--sequence-length", "64")

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Return a file with the config.json of a very small model."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    return path


def client_of(url: str) -> Run:
    """Return a runner of commands that ask this server."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_forked("service", *arguments, env=environment({"HEADROOM_URL": url}))

    return run


def clusters(run: Run) -> dict[str, Any]:
    """Return the stored clusters by name."""
    listed = json.loads(run("clusters", "--json").stdout)
    return {cluster["name"]: cluster for cluster in listed}


def test_models_and_clusters_are_stored_and_asked_about(
    idle: Running, config: Path, tmp_path: Path
) -> None:
    """What is added can be listed, shown, asked about, replaced and deleted."""
    url = idle.url
    run = client_of(url)
    pools = tmp_path / "pools.json"
    pools.write_text(
        json.dumps({"pools": [{"name": "a", "gpu": "L4", "gpus_per_node": 4, "num_nodes": 3}]})
    )

    assert run("models", "add", "tiny", "--config", str(config)).returncode == 0
    assert (
        "`headroom models replace tiny`"
        in run("models", "add", "tiny", "--config", str(config)).stderr
    )
    assert json.loads(run("models", "show", "tiny", "--json").stdout)["revision"] == 1
    assert "revision 2" in run("models", "replace", "tiny", "--config", str(config)).stdout
    assert "tiny" in run("models").stdout
    assert run("fit", *QUESTION, "--server", url).stdout.startswith(
        "tiny on A100-SXM4-80GB, 1 GPU: fits"
    )
    assert run("how-many", *QUESTION, "--server", url).stdout.startswith(
        "tiny on A100-SXM4-80GB: 1 GPU\n"
    )
    assert run("models", "delete", "tiny").returncode == 0
    assert "no stored model 'tiny'" in run("models", "show", "tiny").stderr

    before = clusters(run)
    assert run("clusters", "add", "prod-a", "--file", str(pools)).returncode == 0
    assert (
        "`headroom clusters replace prod-a`"
        in run("clusters", "add", "prod-a", "--file", str(pools)).stderr
    )
    assert clusters(run)["prod-a"]["pools"][0]["total_gpus"] == 12
    assert run("clusters", "delete", "prod-a").returncode == 0
    assert clusters(run) == before


def test_gpus_are_reserved_and_released(idle: Running, tmp_path: Path) -> None:
    """What is reserved is listed and missing from the cluster's free GPUs; the next asker is told
    what is left.
    """
    url = idle.url
    run = client_of(url)
    pools = tmp_path / "pools.json"
    pools.write_text(
        json.dumps({"pools": [{"name": "a", "gpu": "L4", "gpus_per_node": 4, "num_nodes": 3}]})
    )
    run("clusters", "add", "prod-b", "--file", str(pools))
    assert (
        "runs today on a/a-1=1"
        in run("plan", "gpt2", *QUESTION[3:], "--cluster", "prod-b", "--server", url).stdout
    )
    made = run(
        "reservations",
        "add",
        "prod-b",
        "--holder",
        "alice",
        "--gpus",
        "a/a-2=4",
        "--gpus",
        "a=3",
        "--for",
        "2h",
        "--json",
    )
    reservation = json.loads(made.stdout)

    assert reservation["num_gpus"] == 7
    assert "alice" in run("reservations", "list", "prod-b").stdout
    assert (
        json.loads(run("clusters", "show", "prod-b", "--json").stdout)["pools"][0]["free_gpus"] == 5
    )
    refused = run(
        "reservations", "add", "prod-b", "--holder", "bob", "--gpus", "a=6", "--for", "30m"
    )
    assert (refused.returncode, "pool a has 5 free of the 6" in refused.stderr) == (2, True)
    assert run("reservations", "delete", "prod-b", reservation["id"]).returncode == 0
    assert json.loads(run("reservations", "list", "prod-b", "--json").stdout) == []


def test_offline_and_server_say_the_same(idle: Running) -> None:
    """A catalogue model gets the same answer with and without a server."""
    url = idle.url
    run = client_of(url)
    question = ("fit", "gpt2", *QUESTION[1:], "--json")

    assert json.loads(run(*question, "--server", url).stdout) == json.loads(run(*question).stdout)


def test_a_measurement_is_watched_to_its_end(up: Up, config: Path) -> None:
    """A measurement runs, its result is printed, and the next answer of the server rests on it."""
    url = up("--probe-command", make_probe_command()).url
    run = client_of(url)
    run("models", "add", "tiny", "--config", str(config))
    measured = run("measure", *QUESTION, "--json")
    result = json.loads(measured.stdout)

    assert measured.returncode == 0, measured.stderr
    assert result["status"] == "succeeded"
    assert abs(result["prediction"]["error"]) < 0.01
    watched = run("measure", "--watch", result["id"])
    assert f"measurement {result['id']} succeeded on cpu" in watched.stdout


def test_a_measurement_that_waits_can_be_cancelled(idle: Running) -> None:
    """Without a worker a measurement waits; cancelled, it has no result, and the exit code says
    so.
    """
    run = client_of(idle.url)
    measurement_id = run("measure", "gpt2", *QUESTION[3:], "--detach").stdout.strip()

    assert run("measure", "--cancel", measurement_id).returncode == 0
    watched = run("measure", "--watch", measurement_id)
    assert watched.returncode == 2
    assert "cancelled" in watched.stdout
