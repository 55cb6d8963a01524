"""Containers, units and scripts that start a launch."""

import pytest

from service.formats.launches.sources.containers import read_container
from service.formats.launches.values.errors import LaunchFormatError
from tests.unit.formats.launches.importing import get_part, import_launch

COMPOSE = """services:
  proxy:
    image: nginx:1.29
    command: ["nginx"]
  llm:
    image: vllm/vllm-openai:v0.20.1
    command: --model a/b --max-model-len 4096
"""
DEPLOYMENT = """apiVersion: v1
kind: Service
metadata: {name: llm}
---
apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      containers:
      - name: llm
        image: vllm/vllm-openai:v0.20.1
        command: ["/bin/sh", "-c"]
        args: ["vllm serve a/b --max-model-len 4096"]
"""


SET = """# Comments alone are no document.
---
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
spec:
  leaderWorkerTemplate:
    leaderTemplate:
      spec:
        containers:
        - image: vllm/vllm-openai-rocm:v0.20.1
          args: [--model, $(MODEL), --max-model-len=4096]
          env:
          - {name: MODEL, value: a/b}
"""
DEFAULTS = """services:
  llm:
    image: vllm/vllm-openai:v0.20.1
    command: >
      --model ${MODEL:-a/b} --served-model-name "a name" --max-model-len ${LENGTH-4096}
"""


@pytest.mark.parametrize("text", [COMPOSE, DEPLOYMENT, SET, DEFAULTS])
def test_a_manifest_serves_what_its_container_runs(text: str) -> None:
    """Compose files and Kubernetes' manifests hold a command each, wherever its template is."""
    imported = import_launch({"llm.yaml": text})

    assert (imported.launcher, imported.question["model"]) == ("vllm", "a/b")
    assert get_part(imported, "workload")["max_model_len"] == 4096
    assert get_part(imported, "workload")["engine_version"] == "0.20.1"
    assert not imported.ignored


@pytest.mark.parametrize(
    "shell",
    ["[bash, -euo, pipefail, -c]", "[bash, -x, -c]", "[sh, -ec]", "[/bin/bash, -o, pipefail, -lc]"],
)
def test_a_container_may_start_a_shell(shell: str) -> None:
    """Its options come before the text that it runs."""
    text = DEPLOYMENT.replace('["/bin/sh", "-c"]', shell)

    imported = import_launch({"llm.yaml": text})

    assert get_part(imported, "workload")["max_model_len"] == 4096


def test_a_script_with_arguments_is_no_text() -> None:
    """A letter c in its name is no ``-c``: the script is asked for."""
    text = DEPLOYMENT.replace('["/bin/sh", "-c"]', "[bash, exec.sh]")

    with pytest.raises(LaunchFormatError, match=r"runs exec.sh, which was not"):
        import_launch({"llm.yaml": text})


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("vllm/vllm-openai:v0.20.1", "0.20.1"),
        ("nvcr.io/nvidia/tensorrt-llm/release:1.2.0", "1.2.0"),
        ("nvcr.io/nvidia/pytorch:24.01-py3", ""),
        ("nvcr.io/nvidia/vllm:25.09-py3", ""),
        ("rocm/vllm:rocm6.4.1_main", ""),
    ],
)
def test_an_engines_image_says_its_release(image: str, version: str) -> None:
    """Another image's tag is the release of something else."""
    assert read_container(image, ["vllm", "serve"], []).version == version


@pytest.mark.parametrize("line", ["uv run train.py {} && echo x", "./train.py {} | tee log"])
def test_a_script_of_python_runs_among_others(line: str) -> None:
    """Neither an interpreter nor a starter stands before it."""
    options = "--model_name_or_path a/b --output_dir o --learning_rate 1"

    imported = import_launch({"run.sh": line.format(options)})

    assert imported.question["model"] == "a/b"


def test_a_unit_serves_what_it_starts() -> None:
    """Systemd's variables stand in its command, and continued lines belong to it.

    An empty command takes back those before it.
    """
    unit = """[Service]
Environment = "MODEL=a/b" CUDA_VISIBLE_DEVICES=0,1
ExecStartPre=/bin/mkdir -p /data
ExecStart=vllm serve another/model
ExecStart=
ExecStart = -/opt/bin/vllm serve ${MODEL} \\
# a comment within the line
  ; and another
    --tensor-parallel-size 2
"""

    imported = import_launch({"vllm.service": unit})

    assert imported.question["model"] == "a/b"
    assert get_part(imported, "layout")["tensor_parallel"] == 2
    assert "CUDA_VISIBLE_DEVICES" in imported.without_effect


def test_mpirun_says_how_many() -> None:
    """Each of its processes is a GPU's, and both words of --mca have no effect."""
    imported = import_launch(
        command="mpirun --mca btl tcp -np 4 -x PATH python train.py --learning_rate 1 "
        "--output_dir o --model_name_or_path a/b"
    )

    assert get_part(imported, "layout")["data_parallel"] == 4
    assert imported.ignored == ()


@pytest.mark.parametrize(
    ("name", "text", "refusal"),
    [
        ("a.service", "ExecStart=vllm serve a\n" * 200, "starts 200 commands; 100 are read"),
        (
            "a.yaml",
            "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n"
            + "  - {image: a, command: [vllm, serve, b]}\n" * 3000,
            "3,000 commands; a launch has 2,000 at most",
        ),
    ],
)
def test_what_starts_too_much_is_refused(name: str, text: str, refusal: str) -> None:
    """Nobody starts thousands of engines by one file."""
    with pytest.raises(LaunchFormatError, match=refusal):
        import_launch({name: text})
