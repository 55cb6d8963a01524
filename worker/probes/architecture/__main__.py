"""Entry point of the recorder: ``python -m worker.probes.architecture``.

It reads ``{"config", "parent", "weights_only"}`` as JSON on stdin and writes JSON lines on stdout.
"""

import gc
import json
import os
import resource
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from service.probing.refusal import Refusal
from service.runtime.line_process import die_with_parent
from worker.probes.run.sharing import HelperError

MEMORY_BYTES = 4 * 2**30
"""What a recording may take beyond the libraries: a model of 512 layers takes a tenth."""
PROCESSOR_S = 1200
"""Time of processors: a decoder takes 20 to 60 s, one that scans chunks ten minutes."""
MAX_PROCESSES = 2
"""Processes that share the variants, the memory and the time."""
_STDOUT, _STDERR = 1, 2
Emit = Callable[[str, Mapping[str, object]], None]


def main() -> int:
    """Record the config on stdin."""
    request = json.loads(sys.stdin.buffer.read())
    # What loading leaves stays: to look for garbage in it takes a tenth of the time.
    gc.disable()
    with os.fdopen(redirect_stdout(), "wb", buffering=0) as lines:

        def emit(kind: str, message: Mapping[str, object]) -> None:
            _write(lines, {"kind": kind, **message})

        die_with_parent(request["parent"])
        warnings.simplefilter("ignore")
        emit("progress", {"fraction": 0.0, "phase": "loading transformers"})
        record_and_emit(request["config"], emit, weights_only=request["weights_only"])
    return 0


def announce_variants(count: int, emit: Emit) -> Callable[[str], None]:
    """Return a function that says which variant the recorder comes to."""
    places = iter(range(count**2))

    def announce(name: str) -> None:
        share = min(next(places) / count, 0.99)
        emit("progress", {"fraction": round(share, 2), "phase": f"recording {name}"})

    return announce


def count_processes() -> int:
    """Return how many processes record variants, one a core."""
    return min(MAX_PROCESSES, len(os.sched_getaffinity(0)))


def record_and_emit(config: Mapping[str, object], emit: Emit, *, weights_only: bool) -> None:
    """Record a config, or count its weights only.

    The last line is the document, or why there is none.
    """
    # Loading torch takes seconds: whoever waits sees by now that something happens.
    from service.estimator.model.recorded.encoding import encode_recording  # noqa: PLC0415
    from worker.probes.architecture.listening.variants import VARIANTS  # noqa: PLC0415
    from worker.probes.architecture.record import record_model  # noqa: PLC0415
    from worker.probes.architecture.static import count_parameters  # noqa: PLC0415

    # Loaded modules are no garbage, whichever variant looks for it.
    gc.freeze()
    processes = count_processes()
    limit(processes)
    try:
        emit("static", count_parameters(config))
        if weights_only:
            return
        recorded = record_model(
            config, processes=processes, on_begin=announce_variants(len(VARIANTS), emit)
        )
        emit("recorded", {"document": {"config": config, **encode_recording(recorded)}})
    except Refusal as refusal:
        emit("refused", {"message": refusal.message})
    except MemoryError:
        emit("refused", {"message": f"it takes more than {MEMORY_BYTES:,} bytes to record"})
    except Exception as error:  # noqa: BLE001 - the same config would fail the same way
        emit("refused", {"message": _describe(error)})


def _describe(error: Exception) -> str:
    text = str(error) if isinstance(error, HelperError) else f"{type(error).__name__}: {error}"
    return f"transformers' code does not run on this config: {' '.join(text.split())[:400]}"


def limit(processes: int) -> None:
    """Bound processor time and memory of this process.

    Those that it forks have the same. Memory is bounded to what is mapped by now and a share of
    the allowance.
    """
    seconds = PROCESSOR_S // processes
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = pages * resource.getpagesize() + MEMORY_BYTES // processes
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard < 0 else min(limit, hard), hard))


def redirect_stdout() -> int:
    """Keep the prints of libraries out of the protocol."""
    stdout = os.dup(_STDOUT)
    os.dup2(_STDERR, _STDOUT)
    return stdout


def _write(lines: IO[bytes], message: Mapping[str, object]) -> None:
    data = memoryview(json.dumps(message).encode() + b"\n")
    while data:
        data = data[lines.write(data) :]


if __name__ == "__main__":
    sys.exit(main())
