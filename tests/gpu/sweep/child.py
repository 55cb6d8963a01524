"""Process that runs one case: ``python -m tests.gpu.sweep.child --device cuda``.

The case is on stdin, the answer one line on stdout. All imports are done before the case comes, so
that the GPU waits for nobody; CUDA starts with the case.
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
from tests.gpu.sweep.case import Case, Measurement
from tests.gpu.sweep.measuring import measure_case
from worker.probes.run.backend import Backend, load_backend

READY = b"ready\n"
_STDOUT, _STDERR = 1, 2


class CaseResult(msgspec.Struct, frozen=True, kw_only=True):
    """The measurement of a case, or why there is none.

    It has the environment of the measurement too.
    """

    measured: Measurement | None = None
    refused: str | None = None
    failed: str | None = None
    environment: dict[str, Any] = msgspec.field(default_factory=dict)


def main() -> int:
    """Answer the case on stdin."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.sweep.child")
    parser.add_argument("--device", choices=[device.value for device in ProbeDevice], required=True)
    device = ProbeDevice(parser.parse_args().device)
    backend = load_backend(device)
    # What libraries print, C code included, is no part of the answer.
    stdout = os.dup(_STDOUT)
    os.dup2(_STDERR, _STDOUT)
    warnings.simplefilter("ignore")
    os.write(stdout, READY)
    case = msgspec.json.decode(sys.stdin.buffer.read(), type=Case)
    with os.fdopen(stdout, "wb") as out:
        out.write(msgspec.json.encode(_answer(case, backend)))
    return 0


def _answer(case: Case, backend: Backend) -> CaseResult:
    try:
        measured = measure_case(case, backend)
        return CaseResult(measured=measured, environment=_read_environment(backend))
    except Refusal as refusal:
        return CaseResult(refused=refusal.message)
    except Exception as error:  # noqa: BLE001 - one case that fails must not hide the others
        traceback.print_exc()
        return CaseResult(failed=f"{type(error).__name__}: {error}"[:2000])


def _read_environment(backend: Backend) -> dict[str, Any]:
    return {
        "torch": str(torch.__version__),
        "transformers": version("transformers"),
        "peft": version("peft"),
        "python": platform.python_version(),
        **backend.environment(),
    }


if __name__ == "__main__":
    sys.exit(main())
