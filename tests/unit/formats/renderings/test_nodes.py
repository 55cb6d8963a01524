"""Commands of several nodes, run by a shell: what each node starts."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from service.formats.renderings.render import render
from tests.unit.formats.renderings.test_schedulers import JOBS

_STUBS = {
    "vllm": 'echo "$@" >> words',
    "srun": 'for SLURM_NODEID in 0 1; do export SLURM_NODEID; "$@"; done',
    "scontrol": "echo n1; echo n2",
}


def _run_stubbed(script: str, folder: Path, **environment: str) -> list[str]:
    """Return the words of vLLM on each node on which a script starts it."""
    for name, body in _STUBS.items():
        (folder / name).write_text(f"#!/bin/bash\n{body}\n")
        (folder / name).chmod(0o755)
    subprocess.run(
        ["bash", "-euc", script],  # noqa: S607 - the one of PATH
        env={"PATH": f"{folder}:/usr/bin:/bin", "CHECKPOINT": "llama", **environment},
        cwd=folder,
        check=True,
    )
    return (folder / "words").read_text().splitlines()


def _get_commands(name: str) -> str:
    task: Any = render(JOBS[name])["skypilot"]
    return str(task["run"])


def test_nodes_behind_the_first_start_no_server_in_slurm(tmp_path: Path) -> None:
    """Each has its own rank, and all but the first are headless."""
    first, second = _run_stubbed(
        str(render(JOBS["large replicas"])["slurm"]), tmp_path, SLURM_JOB_NODELIST="n[1-2]"
    )

    assert first.endswith("--nnodes 2 --node-rank 0 --master-addr n1")
    assert second.endswith("--nnodes 2 --node-rank 1 --master-addr n1 --headless")


@pytest.mark.parametrize(("rank", "end"), [("0", "10.0.0.1"), ("1", "10.0.0.1 --headless")])
def test_nodes_behind_the_first_start_no_server_in_skypilot(
    rank: str, end: str, tmp_path: Path
) -> None:
    """The same command on every node, which asks for its own rank."""
    (line,) = _run_stubbed(
        _get_commands("large replicas"),
        tmp_path,
        SKYPILOT_NODE_IPS="10.0.0.1\n10.0.0.2",
        SKYPILOT_NODE_RANK=rank,
    )

    assert line.endswith(f"--node-rank {rank} --master-addr {end}")


@pytest.mark.parametrize("name", ["slurm", "skypilot"])
def test_a_server_on_one_node_is_never_headless(name: str) -> None:
    """Nor is a job that trains on two."""
    assert "--headless" not in str(render(JOBS["replicas"])[name])
    assert "--headless" not in str(render(JOBS["two nodes"])[name])
