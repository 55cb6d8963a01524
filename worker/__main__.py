"""Entry point of CPU and GPU workers.

``python -m worker --device cpu`` runs one worker, ``python -m worker --gpus all`` one for each GPU.
"""

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import nullcontext

from service.base.packages import list_missing_packages
from service.base.startup_errors import StartupError
from service.db.session import make_engine, make_sessions
from service.jobs.contract import ProbeDevice
from service.jobs.notify import refuse_pickle
from service.runtime import logs
from service.runtime.process_user import ProcessUser
from service.runtime.settings import Settings
from service.telemetry.spans import is_tracing_enabled
from service.terminal.arguments import Parser, format_choices, make_choice_reader
from service.terminal.errors import report_error
from service.usecases.jobs.workers import WorkerInfo
from service.usecases.recordings.recorder import RECORDER
from service.usecases.stored import Sessions
from worker.context import WorkerContext
from worker.gpus import GpuWorker, Supervisor
from worker.loop import WorkerLoop
from worker.machine import NoGpuError, describe_worker, has_gpu
from worker.nvml.gpus import Gpu, list_gpus
from worker.nvml.idle import IdleGpu
from worker.nvml.library import NvmlUnavailableError, open_nvml
from worker.nvml.visible import UnknownGpuError, select_gpus
from worker.probe_user import open_probe_user

PROBE_COMMAND = (sys.executable, "-m", "worker.probes")
PROBE_PACKAGES = ("torch", "transformers", "peft")
EXIT_CANNOT_START = 2
AUTO = "auto"
DEVICES = ("cpu", "trace", "cuda", AUTO)


def main(arguments: Sequence[str] | None = None) -> int:
    """Work until a signal, or with ``--burst`` until no job is queued."""
    options = _build_parser().parse_args(arguments)
    try:
        settings = Settings.from_env(os.environ)
        logs.configure(level=settings.log_level, log_format=settings.log_format)
        refuse_pickle()
        is_tracing_enabled(os.environ)  # What cannot be is refused here, and not in each attempt.
        if options.gpus is not None:
            return supervise(options, _require_gpus(options.gpus))
        settings.require_database_url()  # Before anything is made or removed for a worker.
        # What an operator names to be run in a probe's place runs as the worker does.
        is_given = bool(options.probe_command or options.recorder_command)
        with nullcontext() if is_given else open_probe_user() as user:
            make_worker_loop(
                settings,
                resolve_device(options.device),
                probe_command=options.probe_command,
                recorder_command=options.recorder_command,
                user=user,
            ).work(burst=options.burst)
    except StartupError as error:
        report_error(error)
        return EXIT_CANNOT_START
    return 0


def resolve_device(name: str) -> ProbeDevice:
    """Return the device that ``--device`` names.

    ``auto`` is a GPU where there is one, else this processor.
    """
    if name != AUTO:
        return ProbeDevice(name)
    return ProbeDevice.CUDA if has_gpu() else ProbeDevice.CPU


def supervise(options: argparse.Namespace, gpus: Sequence[Gpu]) -> int:
    """Run one worker for each GPU until a signal."""
    command = [sys.executable, "-m", "worker", "--device", ProbeDevice.CUDA.value]
    if options.probe_command:
        command += ["--probe-command", shlex.join(options.probe_command)]
    return Supervisor(
        command=command, environ=os.environ, workers=[GpuWorker(gpu=gpu) for gpu in gpus]
    ).run()


def _require_gpus(selection: str) -> tuple[Gpu, ...]:
    try:
        with open_nvml() as api:
            return select_gpus(selection, list_gpus(api), os.environ)
    except (NvmlUnavailableError, UnknownGpuError) as error:
        message = f"--gpus {selection}: {error}"
        raise StartupError(message) from error


def _describe_worker(device: ProbeDevice) -> WorkerInfo:
    try:
        return describe_worker(device)
    except NoGpuError as error:
        raise StartupError(str(error)) from error


def make_worker_loop(
    settings: Settings,
    device: ProbeDevice,
    *,
    probe_command: Sequence[str],
    recorder_command: Sequence[str] = (),
    user: ProcessUser | None = None,
) -> WorkerLoop:
    """Build a worker of ``device`` that is ready to work."""
    if not probe_command:
        _require_packages(PROBE_PACKAGES)
    info = _describe_worker(device)
    return WorkerLoop(
        context=WorkerContext(
            settings=settings,
            name=info.name,
            device=device,
            gpu=info.devices[0].get("sku"),
            probe_command=probe_command or PROBE_COMMAND,
            recorder_command=recorder_command or RECORDER,
            user=user,
        ),
        info=info,
        idle_gpu=IdleGpu(info.devices[0]["uuid"]) if device is ProbeDevice.CUDA else None,
        # The loop has one thread, an attempt writes from two.
        sessions=_open_sessions(settings, "headroom-worker", pool_size=1),
        open_sessions=lambda: _open_sessions(settings, "headroom-attempt", pool_size=2),
    )


def _open_sessions(settings: Settings, application_name: str, *, pool_size: int) -> Sessions:
    return make_sessions(
        make_engine(
            settings.require_database_url(),
            application_name=application_name,
            pool_size=pool_size,
            # A worker that is frozen inside a transaction holds its job's row, and nobody could
            # take the job from it.
            idle_in_transaction_timeout_s=max(1, int(settings.lease_s / 3)),
        ),
    )


def _require_packages(names: Sequence[str]) -> None:
    missing = list_missing_packages(names)
    if missing:
        message = (
            f"a worker runs real models and needs {', '.join(missing)}; install with: pip install "
            "'gpu-headroom[worker]'"
        )
        raise StartupError(message)


def _build_parser() -> Parser:
    parser = Parser(prog="headroom worker", description="Run the measurements that are queued.")
    target = parser.add_mutually_exclusive_group()
    target.add_argument(
        "--device",
        type=make_choice_reader(DEVICES),
        metavar=format_choices(DEVICES),
        default=ProbeDevice.CPU.value,
        help=(
            "what this worker measures on; auto: the GPU where there is one, else the processor "
            "(default: %(default)s)"
        ),
    )
    target.add_argument(
        "--gpus",
        metavar="all|0,1|UUID,…",
        help=(
            "run one worker for each of these GPUs and start again those that die; numbers count "
            "what CUDA shows"
        ),
    )
    parser.add_argument(
        "--burst", action="store_true", help="leave when no job is queued (one worker only)"
    )
    parser.add_argument(
        "--probe-command",
        type=shlex.split,
        default=(),
        metavar="COMMAND",
        help=(
            "run this in place of `python -m worker.probes`; it reads a request on stdin and "
            "writes JSON lines"
        ),
    )
    parser.add_argument(
        "--recorder-command",
        type=shlex.split,
        default=(),
        metavar="COMMAND",
        help="run this in place of `python -m worker.probes.architecture`",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
