"""One case in a process of its own: ``python -m tests.gpu.sweep.child --device cuda``, the case on stdin, a line on stdout.

What is imported is imported before the case comes, so that the GPU waits for nobody; CUDA starts with the case.
"""

import argparse
import os
import platform
import sys
import traceback
import warnings
from importlib.metadata import version
from typing import Any

import msgspec
import torch

from service.jobs.contract import ProbeDevice
from service.probing.refusal import Refusal
from tests.gpu.sweep.case import Case, Measured
from tests.gpu.sweep.measuring import measure_case
from worker.probes.run.backend import Backend, backend_for

READY = b"ready\n"
_STDOUT, _STDERR = 1, 2


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a child says: what it measured, or why it did not; and what it measured on."""

    measured: Measured | None = None
    refused: str | None = None
    failed: str | None = None
    environment: dict[str, Any] = msgspec.field(default_factory=dict)


def main() -> int:
    """Answer the case on stdin."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.sweep.child")
    parser.add_argument("--device", choices=[device.value for device in ProbeDevice], required=True)
    device = ProbeDevice(parser.parse_args().device)
    backend = backend_for(device)
    # What libraries print, C code included, is no part of the answer.
    kept = os.dup(_STDOUT)
    os.dup2(_STDERR, _STDOUT)
    warnings.simplefilter("ignore")
    os.write(kept, READY)
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=Case)
    with os.fdopen(kept, "wb") as out:
        out.write(msgspec.json.encode(_answer(asked, backend)))
    return 0


def _answer(case: Case, backend: Backend) -> Answer:
    try:
        measured = measure_case(case, backend)
        return Answer(measured=measured, environment=_environment(backend))
    except Refusal as refusal:
        return Answer(refused=refusal.message)
    except Exception as error:  # noqa: BLE001 - one case that fails must not hide the others
        traceback.print_exc()
        return Answer(failed=f"{type(error).__name__}: {error}"[:2000])


def _environment(backend: Backend) -> dict[str, Any]:
    return {
        "torch": str(torch.__version__),
        "transformers": version("transformers"),
        "peft": version("peft"),
        "python": platform.python_version(),
        **backend.environment(),
    }


if __name__ == "__main__":
    sys.exit(main())
