"""Run a worker that measures, against DATABASE_URL and REDIS_URL."""

import argparse
import os
import sys

from service.terminal.arguments import format_choices, make_choice_reader

DEVICES = ("cpu", "trace", "cuda", "auto")
EXTRA = ("torch", "transformers", "peft")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the worker measures on."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--device",
        type=make_choice_reader(DEVICES),
        metavar=format_choices(DEVICES),
        default="cpu",
        help=(
            "what it measures on (default cpu); auto: the GPU where there is one, else the "
            "processor"
        ),
    )
    where.add_argument(
        "--gpus",
        metavar="all|0,1|UUID,…",
        help="one worker for each of these GPUs, started again when it dies",
    )
    parser.add_argument("--burst", action="store_true", help="leave when no job is queued")


def run(options: argparse.Namespace) -> int:
    """Replace this process by the worker.

    So the process id, signals and environment are the worker's own.
    """
    where = ["--device", options.device] if options.gpus is None else ["--gpus", options.gpus]
    arguments = [*where, *(["--burst"] if options.burst else [])]
    os.execv(sys.executable, [sys.executable, "-m", "worker", *arguments])  # noqa: S606 - our own module, no shell
