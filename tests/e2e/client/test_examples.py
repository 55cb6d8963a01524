"""The examples of the documentation, run as they are."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from service.client.headroom import Headroom
from tests.e2e.client.conftest import REPOSITORY, list_paths

EXAMPLES = REPOSITORY / "docs" / "examples"
GPU = "A100-SXM4-80GB"


def run(name: str, url: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run one example against a server."""
    environment = {"HEADROOM_URL": url, "PATH": os.environ["PATH"], "PYTHONPATH": list_paths()}
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_all_of_them_are_run_here() -> None:
    """An example that nobody runs is wrong sooner or later."""
    assert {file.stem for file in EXAMPLES.glob("*.py")} == {
        "scheduler",
        "ci_guard",
        "measure_and_compare",
    }


def test_the_scheduler_reserves_what_it_needs(url: str, headroom: Headroom) -> None:
    """It says how many, holds them for an hour, and gives up when nothing is left."""
    nodes = [{"name": "n1", "allocated_gpus": 7}, {"name": "n2", "allocated_gpus": 8}]
    headroom.clusters.create(
        {"name": "prod-a", "pools": [{"name": "a", "gpu": GPU, "gpus_per_node": 8, "nodes": nodes}]}
    )
    arguments = ("llama-3.1-8b", "--cluster", "prod-a", "--holder", "team-vision")

    first, second = (run("scheduler", url, *arguments) for _ in range(2))

    assert (first.returncode, first.stderr) == (0, "")
    assert f"llama-3.1-8b needs 1 x {GPU}" in first.stdout
    assert "reserved for team-vision until" in first.stdout
    assert first.stdout.rstrip().endswith("1 on n1")
    assert [held.num_gpus for held in headroom.reservations("prod-a").list()] == [1]
    assert second.returncode == 1
    assert "nothing on prod-a is enough or free now" in second.stdout


@pytest.mark.parametrize(
    ("change", "code", "told"),
    [
        ({"method": "lora"}, 0, "fits, "),
        ({}, 1, "does_not_fit, "),
        ({"sequence_lenght": 1}, 2, "Did you mean 'sequence_length'?"),
    ],
)
def test_the_guard_refuses_what_does_not_fit(
    url: str, tmp_path: Path, change: dict[str, object], code: int, told: str
) -> None:
    """Its exit code is what a pipeline looks at; a remedy and the misspelt word are what a person
    reads.
    """
    workload = {
        "task": "train",
        "sequence_length": 4096,
        "activation_checkpointing": "full",
        **change,
    }
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"model": "llama-2-7b", "workload": workload, "gpu": GPU}))

    found = run("ci_guard", url, str(file))

    assert (found.returncode, found.stderr) == (code, "")
    assert f"{file}: " in found.stdout
    assert told in found.stdout
    assert ("would fit with" in found.stdout) == (code == 1)


@pytest.mark.usefixtures("worker")
def test_a_measurement_is_watched_and_compared(url: str) -> None:
    """Its states are told as they come, and what was measured stands beside what was predicted."""
    found = run("measure_and_compare", url, "gpt2", "--device", "cpu")
    lines = found.stdout.splitlines()

    assert (found.returncode, found.stderr) == (0, "")
    assert [line for line in lines if line in {"queued", "running", "succeeded"}] == [
        "queued",
        "running",
        "succeeded",
    ]
    assert lines[-2].startswith("measured")
    assert lines[-1].startswith("predicted")
