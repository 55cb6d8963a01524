"""Run:ai: the script sends what was meant, with the ids of whoever runs it."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.units import GIB
from service.estimator.values.workload import Engine, ServeWorkload
from service.formats.manifests.registry import render_format
from service.formats.manifests.runai import render_runai_call
from service.formats.renderings.job import Job, Launch
from tests.unit.formats.renderings.builders import a_job

CHAT = ServeWorkload(num_sequences=8, prompt_tokens=512, engine=Engine.VLLM)
SMALL = replace(
    a_job(layout=Layout(data_parallel=1)),
    needed_bytes=14 * GIB,
    checkpoints=("meta-llama/Llama-2-7b-hf",),
)
SERVER = replace(a_job(CHAT, Layout(tensor_parallel=2)), checkpoints=("meta-llama/Llama-2-7b-hf",))
IDS = {
    "RUNAI_URL": "https://runai.example",
    "RUNAI_TOKEN": "secret",
    "RUNAI_PROJECT_ID": "4501",
    "RUNAI_CLUSTER_ID": "71f69d83-ba66-4822-adf5-55ce55efd210",
}
CURL = '#!/bin/sh\nprintf "%s\\n" "$@" > "$SENT/arguments"\ncat > "$SENT/body"\n'


def _run(script: object, place: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script with a curl that writes down what it is told."""
    curl = place / "curl"
    curl.write_text(CURL)
    curl.chmod(0o755)
    return subprocess.run(
        ["/bin/sh"],
        input=str(script),
        env={"PATH": f"{place}:{os.environ['PATH']}", "SENT": str(place), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def _send(job: Job, place: Path) -> tuple[list[str], dict[str, Any]]:
    done = _run(render_format("runai", job).document, place, **IDS)
    assert done.returncode == 0, done.stderr
    return (place / "arguments").read_text().splitlines(), json.loads((place / "body").read_text())


def test_a_small_job_asks_for_its_bytes(tmp_path: Path) -> None:
    """As megabytes of one GPU, in the project and cluster of whoever runs the script."""
    arguments, body = _send(SMALL, tmp_path)

    assert "https://runai.example/api/v1/workloads/trainings" in arguments
    assert "Authorization: Bearer secret" in arguments
    assert (body["projectId"], body["clusterId"]) == (
        IDS["RUNAI_PROJECT_ID"],
        IDS["RUNAI_CLUSTER_ID"],
    )
    assert body["spec"]["command"] == "torchrun"
    assert body["spec"]["compute"] == {
        "cpuCoreRequest": 4,
        "cpuMemoryRequest": "17180M",
        "largeShmRequest": True,
        "gpuDevicesRequest": 1,
        "gpuRequestType": "memory",
        "gpuMemoryRequest": "15033M",
    }


def test_a_server_has_gpus_alone(tmp_path: Path) -> None:
    """With its port, and as many replicas as were planned."""
    arguments, body = _send(SERVER, tmp_path)

    spec = body["spec"]
    assert "https://runai.example/api/v1/workloads/inferences" in arguments
    assert spec["servingPort"] == {"protocol": "http", "container": 8000}
    assert spec["autoscaling"] == {"minReplicas": 1, "maxReplicas": 1}
    assert spec["compute"]["gpuDevicesRequest"] == 2
    assert "gpuRequestType" not in spec["compute"]
    assert spec["args"].startswith("serve meta-llama/Llama-2-7b-hf ")


def test_words_reach_the_api_as_they_are(tmp_path: Path) -> None:
    """Quotes, backslashes, dollars and backticks of a command are no words of the shell."""
    words = ("--config", '{"a": "x\\y"}', "$HOME", "`id`")

    script = render_runai_call(SMALL, Launch(command=("run", *words)))

    done = _run(script, tmp_path, **IDS)
    assert done.returncode == 0, done.stderr
    args = json.loads((tmp_path / "body").read_text())["spec"]["args"]
    assert args == """--config '{"a": "x\\y"}' '$HOME' '`id`'"""


def test_an_id_that_is_missing_stops_the_script(tmp_path: Path) -> None:
    """Nothing is sent, and the shell says which."""
    script = render_format("runai", SMALL).document

    done = _run(script, tmp_path, **(IDS | {"RUNAI_PROJECT_ID": ""}))

    assert done.returncode != 0
    assert "RUNAI_PROJECT_ID" in done.stderr
    assert not (tmp_path / "body").exists() or not (tmp_path / "body").read_text()


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        (a_job(), "runai is on one node"),
        (
            a_job(layout=Layout(data_parallel=2, zero_stage=3, sharding=Sharding.DEEPSPEED)),
            "has no place for",
        ),
    ],
)
def test_what_the_api_cannot_carry_is_refused(job: Job, reason: str) -> None:
    """Several nodes, and files that the launch reads."""
    assert reason in (render_format("runai", job).reason or "")
