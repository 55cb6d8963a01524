"""Entry point of the recorder of pipelines: ``python -m worker.probes.pipelines``.

It reads ``{"model_index", "configs"}`` as JSON on stdin and writes JSON lines on stdout.
"""

import json
import logging
import os
import sys
import warnings
from typing import IO

from service.probing.refusal import Refusal
from worker.probes.architecture.__main__ import limit, redirect_stdout


def main() -> int:
    """Record the pipeline on stdin."""
    request = json.loads(sys.stdin.buffer.read())
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    with os.fdopen(redirect_stdout(), "w", encoding="utf-8", buffering=1) as lines:
        # Loading torch takes seconds: whoever waits sees by now that something happens.
        _emit(lines, "progress", phase="loading diffusers")
        from worker.probes.pipelines.record import record_pipeline  # noqa: PLC0415

        limit(1)
        try:
            document = record_pipeline(request, lambda phase: _emit(lines, "progress", phase=phase))
            _emit(lines, "recorded", document=document)
        except Refusal as refusal:
            _emit(lines, "refused", message=refusal.message)
        except MemoryError:
            _emit(lines, "refused", message="it takes more memory to record than is allowed")
        except Exception as error:  # noqa: BLE001 - the same files would fail the same way
            text = f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"
            _emit(lines, "refused", message=f"diffusers' code does not run on these: {text}")
    return 0


def _emit(lines: IO[str], kind: str, **fields: object) -> None:
    lines.write(f"{json.dumps({'kind': kind, **fields})}\n")


if __name__ == "__main__":
    sys.exit(main())
