"""Composition root of a worker: ``python -m worker --device cpu``."""

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from service import logs
from service.db.session import make_engine, make_sessions
from service.errors import StartupError
from service.jobs.bell import refuse_pickle
from service.jobs.contract import ProbeDevice
from service.settings import Settings
from service.usecases.access import Sessions
from service.usecases.measurable import AVAILABLE_DEVICES
from worker.machine import describe
from worker.shift import Shift
from worker.tasks import Workplace

PROBE_COMMAND = (sys.executable, "-m", "worker.probes")
PROBE_PACKAGES = ("torch", "transformers", "peft")
EXIT_CANNOT_START = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Work until a signal, or with ``--burst`` until no job is queued."""
    options = _parser().parse_args(arguments)
    try:
        settings = Settings.from_env(os.environ)
        logs.configure(level=settings.log_level, log_format=settings.log_format)
        refuse_pickle()
        make_shift(settings, ProbeDevice(options.device), probe_command=options.probe_command).work(burst=options.burst)
    except StartupError as error:
        sys.stderr.write(f"{error.detail}\n")
        return EXIT_CANNOT_START
    return 0


def make_shift(settings: Settings, device: ProbeDevice, *, probe_command: Sequence[str]) -> Shift:
    """Return a worker of ``device`` that is ready to work."""
    if not probe_command:
        _require_packages(PROBE_PACKAGES)
    info = describe(device)
    return Shift(
        workplace=Workplace(settings=settings, name=info.name, device=device, probe_command=probe_command or PROBE_COMMAND),
        info=info,
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
            # A worker that is frozen inside a transaction holds its job's row, and nobody could take the job from it.
            idle_in_transaction_timeout_s=max(1, int(settings.lease_s / 3)),
        )
    )


def _require_packages(names: Sequence[str]) -> None:
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        message = f"a worker runs real models and needs {', '.join(missing)}; install with: pip install 'gpu-headroom[worker]'"
        raise StartupError(message)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="headroom worker", description="Run the measurements that are queued.")
    parser.add_argument(
        "--device",
        choices=[device.value for device in AVAILABLE_DEVICES],
        default=ProbeDevice.CPU.value,
        help="what this worker measures on (default: %(default)s)",
    )
    parser.add_argument("--burst", action="store_true", help="leave when no job is queued")
    parser.add_argument(
        "--probe-command",
        type=shlex.split,
        default=(),
        metavar="COMMAND",
        help="run this in place of `python -m worker.probes`; it reads a request on stdin and writes JSON lines",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
