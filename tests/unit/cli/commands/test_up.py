"""What `headroom up` starts, and what it says when something will be missing."""

import json
import signal
import subprocess
import sys
import tomllib
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from service.base.startup_errors import StartupError
from service.cli.commands.worker import EXTRA
from service.cli.local_workers import (
    WORKER,
    LocalWorkers,
    VisibleGpu,
    choose_workers,
    count_workers_to_start,
    describe_gpu_workers,
    list_worker_gpus,
    make_worker_children,
)
from service.embedded.datadir import DataDir
from service.embedded.events import NullLog
from service.embedded.forking import ModuleMain
from worker.__main__ import PROBE_PACKAGES

ROOT = Path(__file__).parents[4]
NOT_IMPORTED = {"nvidia-ml-py"}
"""Of the extra, what only a GPU worker would import."""


class Warnings(NullLog):
    """A log that remembers its warnings."""

    def __init__(self) -> None:
        """Hear nothing yet."""
        self.heard: list[dict[str, Any]] = []

    def warning(self, event: str, **keys: object) -> None:
        """Remember one."""
        self.heard.append({"event": event, **keys})


@pytest.mark.parametrize(
    ("wanted", "missing", "started", "mend"),
    [
        (2, (), 2, None),
        (0, (), 0, "--workers 1"),
        (1, ("peft",), 0, "gpu-headroom[worker]"),
        (0, ("peft",), 0, "--workers 1"),
    ],
)
def test_measurements_that_will_wait_are_announced(
    wanted: int, missing: tuple[str, ...], started: int, mend: str | None
) -> None:
    """Without a worker, wanted or not, one line says what that means and what mends it."""
    log = Warnings()

    assert count_workers_to_start(wanted, missing, log) == started

    assert len(log.heard) == (mend is not None)
    for warning in log.heard:
        assert warning["effect"] == "measurements wait for a worker"
        assert mend is not None
        assert mend in str(warning["mend"])


def test_a_worker_needs_the_whole_extra() -> None:
    """Whatever the extra installs is looked for before a worker starts."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    packages = {
        requirement.partition("==")[0].partition(">=")[0]
        for requirement in project["optional-dependencies"]["worker"]
        if not requirement.startswith(project["name"])
    }

    assert set(EXTRA) == set(PROBE_PACKAGES) == packages - NOT_IMPORTED


GPUS = (VisibleGpu(uuid="GPU-1", name="NVIDIA H200"), VisibleGpu(uuid="MIG-2", name="a slice"))


def test_each_gpu_gets_a_worker_that_sees_no_other(tmp_path: Path) -> None:
    """Beside those of the CPU and the one that traces; all run the same probe."""
    workers = LocalWorkers(num_cpu=1, gpus=GPUS, arguments=("--probe-command", "p"))

    children = make_worker_children(
        DataDir(root=tmp_path, sockets=tmp_path, user=None), {"HOME": "/h"}, workers
    )

    assert [(child.name, child.program) for child in children] == [
        (name, ModuleMain(module=WORKER, arguments=("--device", device, "--probe-command", "p")))
        for name, device in (
            ("worker-1", "cpu"),
            ("tracer", "trace"),
            ("gpu-0", "cuda"),
            ("gpu-1", "cuda"),
        )
    ]
    assert [child.environment.get("CUDA_VISIBLE_DEVICES") for child in children] == [
        None,
        None,
        "GPU-1",
        "MIG-2",
    ]
    # At SIGTERM a worker would let its job end first.
    assert {child.stop_signals[0][0] for child in children} == {signal.SIGINT}


def test_what_measures_on_gpus_is_told() -> None:
    """One line names each of them."""
    line = describe_gpu_workers(GPUS)

    assert line == "Workers of 2 GPUs: NVIDIA H200 (GPU-1), a slice (MIG-2)"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have programs believe in two GPUs."""
    gpus = [{"uuid": "GPU-1111"}, {"uuid": "GPU-2222", "name": "NVIDIA H100 80GB HBM3"}]
    monkeypatch.setenv("FAKE_GPUS", json.dumps(gpus))
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'tests' / 'fake_driver'}:{ROOT}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.usefixtures("machine")
def test_the_driver_is_asked_by_a_program_of_the_workers() -> None:
    """The service loads no driver; ``none`` asks nobody, a number is CUDA's."""
    listed = {selection: list_worker_gpus(selection) for selection in ("all", "1", "none")}

    assert {name: [gpu.uuid for gpu in gpus] for name, gpus in listed.items()} == {
        "all": ["GPU-1111", "GPU-2222"],
        "1": ["GPU-2222"],
        "none": [],
    }
    with pytest.raises(StartupError, match="which is no GPU here"):
        list_worker_gpus("7")


class HangingProcess:
    """A program that its driver does not let end."""

    def __init__(self, *_: object, **__: object) -> None:
        """Start."""

    def communicate(self, timeout: float) -> None:
        """Give up after the time."""
        raise subprocess.TimeoutExpired("worker.nvml", timeout)

    def kill(self) -> None:
        """Change nothing."""

    def wait(self) -> None:
        """Wait for ever."""
        message = "nobody waits for a process that may not end"
        raise AssertionError(message)


def test_a_driver_that_hangs_costs_a_warning_and_no_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody named a GPU everything else starts; who named one is told."""
    monkeypatch.setattr("service.cli.local_workers.subprocess.Popen", HangingProcess)
    log = Warnings()

    workers = choose_workers(Namespace(workers=1, gpus=None, probe_command=None), (), log)

    assert (workers.num_cpu, workers.gpus) == (1, ())
    assert "did not list its GPUs in 30 s" in log.heard[0]["reason"]
    with pytest.raises(StartupError, match="--gpus 0: the driver did not list its GPUs"):
        list_worker_gpus("0")


@pytest.mark.usefixtures("machine")
def test_workers_of_gpus_alone_are_workers() -> None:
    """Measurements need not wait where GPUs have workers and the CPU has none."""
    log = Warnings()

    workers = choose_workers(Namespace(workers=0, gpus="all", probe_command=None), (), log)

    assert (workers.num_cpu, len(workers.gpus), log.heard) == (0, 2, [])


@pytest.mark.usefixtures("machine")
def test_gpus_that_somebody_named_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """``all`` of none is a mistake where somebody typed it, and the rule where nobody did."""
    monkeypatch.setenv("FAKE_GPUS", "[]")
    options = Namespace(workers=1, gpus="all", probe_command=None)

    with pytest.raises(StartupError, match="--gpus all: CUDA shows no GPU here"):
        choose_workers(options, (), NullLog())

    options.gpus = None
    assert choose_workers(options, (), NullLog()).gpus == ()


def test_a_start_loads_no_more_than_it_starts() -> None:
    """The program that starts the parts is none of them, and the API speaks MCP once asked to."""
    script = (
        "import sys, service.cli.commands.up;"
        "started = {'service.app', 'litestar', 'sqlalchemy', 'uvicorn', 'mcp'} & set(sys.modules);"
        "import service.mcp.endpoint;"
        "print(*sorted(started), *sorted({'mcp', 'mcp_types', 'pydantic'} & set(sys.modules)))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout

    assert loaded.split() == []
