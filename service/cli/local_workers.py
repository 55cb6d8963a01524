"""Workers that ``headroom up`` starts, one of them for each GPU."""

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from service.base.startup_errors import StartupError
from service.embedded.account import grant_traversal
from service.embedded.children import Child
from service.embedded.datadir import DataDir
from service.embedded.events import Log
from service.embedded.forking import ModuleMain
from service.runtime.process_user import PROBE_USER
from service.terminal.arguments import parse_count

WORKER = "worker.__main__"
NO_GPUS = "none"
ALL_GPUS = "all"
_TIMEOUT_S = 30.0
"""Time for a driver without persistence mode to load."""


def add_workers(parser: argparse.ArgumentParser) -> None:
    """Add the number of workers, their GPUs and their probe."""
    parser.add_argument(
        "--workers",
        type=parse_count,
        default=1,
        help=(
            "workers that measure on the CPU, beside one that traces and one for each GPU "
            "(default 1; 0 for no worker at all)"
        ),
    )
    parser.add_argument(
        "--gpus",
        metavar="all|none|0,1|UUID,…",
        help="GPUs that get a worker each (default all that CUDA shows)",
    )
    parser.add_argument(
        "--probe-command",
        metavar="COMMAND",
        help="what workers run in place of `python -m worker.probes`",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleGpu:
    """A GPU or MIG slice that CUDA shows, by its UUID."""

    uuid: str
    name: str

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables that show a process this GPU alone."""
        return {"CUDA_VISIBLE_DEVICES": self.uuid, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalWorkers:
    """Workers to start on this machine."""

    num_cpu: int
    gpus: tuple[VisibleGpu, ...]
    arguments: tuple[str, ...]
    """Arguments of all of them."""


def choose_workers(options: argparse.Namespace, missing: Sequence[str], log: Log) -> LocalWorkers:
    """Return the workers to start here: none where packages are ``missing``.

    Raises StartupError for a GPU that is not there.
    """
    command = options.probe_command
    gpus = () if missing else _choose_gpus(options, log)
    return LocalWorkers(
        # Workers of GPUs measure too: without one on the CPU nothing waits for ever.
        num_cpu=options.workers if gpus else count_workers_to_start(options.workers, missing, log),
        gpus=gpus,
        arguments=() if command is None else ("--probe-command", command),
    )


def _choose_gpus(options: argparse.Namespace, log: Log) -> tuple[VisibleGpu, ...]:
    """Return the GPUs that get a worker.

    Where nobody named any, a driver that refuses costs a warning and no start.
    """
    if options.gpus is not None:
        gpus = list_worker_gpus(options.gpus)
        if not gpus and options.gpus != NO_GPUS:
            message = f"--gpus {options.gpus}: CUDA shows no GPU here; --gpus none starts without"
            raise StartupError(message)
        return gpus
    if not options.workers:
        return ()
    try:
        return list_worker_gpus(ALL_GPUS)
    except StartupError as error:
        log.warning("up.no_gpu_worker", reason=str(error), mend="--gpus")
        return ()


def admit_probes(log: Log) -> None:
    """Let the user of root's probes pass through to Python.

    Directories that everybody passes through already, as most are, stay as they are.
    """
    if os.geteuid() != 0:
        return
    programs = (sys.prefix, sys.base_prefix, sys.executable, Path(__file__).parent)
    for program in programs:
        grant_traversal(Path(program), PROBE_USER, log)


def count_workers_to_start(requested: int, missing: Sequence[str], log: Log) -> int:
    """Return how many workers can be started.

    Logs a warning when that is none.
    """
    if not requested:
        log.warning(
            "up.no_worker",
            effect="measurements wait for a worker",
            mend="--workers 1, or run `headroom worker`",
        )
    elif missing:
        log.warning(
            "up.no_worker",
            missing=", ".join(missing),
            effect="measurements wait for a worker",
            mend="gpu-headroom[worker]",
        )
    return 0 if missing else requested


def list_worker_gpus(selection: str) -> tuple[VisibleGpu, ...]:
    """Return the GPUs that a selection means here, in CUDA's order.

    Raises StartupError for a name that no GPU has.
    """
    if selection == NO_GPUS:
        return ()
    command = [sys.executable, "-m", "worker.nvml", "--gpus", selection]
    # The service loads no driver: a program of the worker's asks it.
    listing = subprocess.Popen(  # noqa: S603 - our own module, no shell
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        output, errors = listing.communicate(timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        # A process that hangs within the driver may not end: nobody waits for it.
        listing.kill()
        message = f"--gpus {selection}: the driver did not list its GPUs in {_TIMEOUT_S:g} s"
        raise StartupError(message) from error
    if listing.returncode != 0:
        reason = errors.strip().rpartition("\n")[2]
        message = f"--gpus {selection}: {reason}"
        raise StartupError(message)
    return tuple(VisibleGpu(**json.loads(line)) for line in output.splitlines())


def describe_gpu_workers(gpus: Sequence[VisibleGpu]) -> str:
    """Return the line that tells of the workers of GPUs."""
    names = ", ".join(f"{gpu.name} ({gpu.uuid})" for gpu in gpus)
    return f"Workers of {'1 GPU' if len(gpus) == 1 else f'{len(gpus)} GPUs'}: {names}"


def make_worker_children(
    data: DataDir, environment: Mapping[str, str], workers: LocalWorkers
) -> list[Child]:
    """Make the workers of this machine.

    A worker of a GPU sees no other, and is started again by itself.
    """
    make = partial(_make_worker_child, data, arguments=workers.arguments)
    children = [
        make(environment, f"worker-{number}", "cpu") for number in range(1, workers.num_cpu + 1)
    ]
    if workers.num_cpu:
        children.append(make(environment, "tracer", "trace"))
    children += [
        make({**environment, **gpu.environment}, f"gpu-{number}", "cuda")
        for number, gpu in enumerate(workers.gpus)
    ]
    return children


def _make_worker_child(
    data: DataDir,
    environment: Mapping[str, str],
    name: str,
    device: str,
    *,
    arguments: Sequence[str],
) -> Child:
    return Child(
        name=name,
        program=ModuleMain(module=WORKER, arguments=("--device", device, *arguments)),
        record=data.record(name),
        log_file=data.log_file(name),
        is_ready=lambda _pid: True,
        # At SIGTERM a worker would let its job end first, at SIGINT it gives it back at once.
        stop_signals=((signal.SIGINT, 5.0),),
        environment=environment,
        may_fail=True,
    )
