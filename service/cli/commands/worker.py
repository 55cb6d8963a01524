"""Run a worker that measures, against DATABASE_URL and REDIS_URL."""

import argparse
import importlib.util
import os
import sys
from collections.abc import Sequence

from service.terminal.arguments import one_of, shown

DEVICES = ("cpu", "trace", "cuda", "auto")
EXTRA = ("torch", "transformers", "peft")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take what the worker measures on."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--device",
        type=one_of(DEVICES),
        metavar=shown(DEVICES),
        default="cpu",
        help="what it measures on (default cpu); auto: the GPU where there is one, else the processor",
    )
    where.add_argument("--gpus", metavar="all|0,1|UUID,…", help="one worker for each of these GPUs, started again when it dies")
    parser.add_argument("--burst", action="store_true", help="leave when no job is queued")


def run(options: argparse.Namespace) -> int:
    """Become the worker: this process's id, signals and environment are its own."""
    where = ["--device", options.device] if options.gpus is None else ["--gpus", options.gpus]
    said = [*where, *(["--burst"] if options.burst else [])]
    os.execv(sys.executable, [sys.executable, "-m", "worker", *said])  # noqa: S606 - our own module, no shell


def missing_packages() -> Sequence[str]:
    """Return what the ``worker`` extra would bring and is not there."""
    return [name for name in EXTRA if importlib.util.find_spec(name) is None]
