"""Run a worker that measures, against DATABASE_URL and REDIS_URL."""

import argparse
import importlib.util
import os
import sys
from collections.abc import Sequence

from service.errors import StartupError

EXTRA = ("torch", "transformers")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take what the worker measures on."""
    parser.add_argument("--device", default="cpu", help="what it measures on (default cpu)")


def run(options: argparse.Namespace) -> int:
    """Become the worker: this process's id, signals and environment are its own."""
    missing = missing_packages()
    if missing:
        message = f"a worker needs {' and '.join(missing)}: pip install 'gpu-headroom[worker]'"
        raise StartupError(message)
    os.execv(sys.executable, [sys.executable, "-m", "worker", "--device", options.device])  # noqa: S606 - our own module, no shell


def missing_packages() -> Sequence[str]:
    """Return what the ``worker`` extra would bring and is not there."""
    return [name for name in EXTRA if importlib.util.find_spec(name) is None]
