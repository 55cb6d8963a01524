"""A dry run over HTTP and by the command: what would be run, and nothing that is."""

import httpx
import pytest

from service.__main__ import main

QUESTION = {
    "model": "llama-3.2-1b",
    "workload": {"task": "train", "sequence_length": 512},
    "device": "trace",
}
COMMAND = ("measure", "llama-3.2-1b", "--task", "train", "--sequence-length", "512", "--dry-run")


def test_a_dry_run_tells_the_plan_and_queues_nothing(
    client: httpx.Client, capsys: pytest.CaptureFixture[str]
) -> None:
    """The answer is 200 with the runs; the command prints them, or why the probe would refuse."""
    answer = client.post("/v1/measurements", json={**QUESTION, "dry_run": True})
    server = ("--server", str(client.base_url))
    codes = [
        main([*COMMAND, "--device", "trace", *server]),
        main([*COMMAND, "--device", "trace", "--json", *server]),
    ]
    said = capsys.readouterr().out
    no_gpu = main([*COMMAND, "--device", "cuda", *server])

    assert answer.status_code == 200
    assert [run["num_layers"] for run in answer.json()["runs"]] == [16, 16]
    assert answer.json()["problem"] is None
    assert (codes, no_gpu) == ([0, 0], 2)
    assert said.startswith("plan: 2 runs, about ")
    assert '"dry_run": true' in said
    assert "name the GPU" in capsys.readouterr().err
    assert client.get("/v1/measurements").json()["items"] == []
