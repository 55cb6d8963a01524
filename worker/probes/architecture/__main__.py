"""Entry point of the recorder: ``python -m worker.probes.architecture``.

It reads ``{"config", "parent", "weights_only"}`` as JSON on stdin and writes JSON lines on stdout.
"""

import json
import os
import resource
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, TypeVar

from service.probing.refusal import Refusal
from service.runtime.line_process import die_with_parent

MEMORY_BYTES = 4 * 2**30
"""What a recording may take beyond the libraries: a model of 512 layers takes a tenth."""
PROCESSOR_S = 600
"""Time of one processor, which threads share: a decoder takes 20 to 60 s."""
_STDOUT, _STDERR = 1, 2
Variant = TypeVar("Variant")
Emit = Callable[[str, Mapping[str, object]], None]


def main() -> int:
    """Record the config on stdin."""
    request = json.loads(sys.stdin.buffer.read())
    with os.fdopen(_redirect_stdout(), "wb", buffering=0) as lines:

        def emit(kind: str, message: Mapping[str, object]) -> None:
            _write(lines, {"kind": kind, **message})

        die_with_parent(request["parent"])
        warnings.simplefilter("ignore")
        emit("progress", {"fraction": 0.0, "phase": "loading transformers"})
        record_and_emit(request["config"], emit, weights_only=request["weights_only"])
    return 0


class AnnouncedVariants(Mapping[str, Variant]):
    """Variants that say when the recorder comes to them."""

    def __init__(self, variants: Mapping[str, Variant], emit: Emit) -> None:
        """Announce ``variants`` through ``emit``."""
        self._variants, self._emit, self._begun = variants, emit, 0

    def __getitem__(self, name: str) -> Variant:
        """Return a variant that is recorded next."""
        share = min(self._begun / len(self._variants), 0.99)
        self._begun += 1
        self._emit("progress", {"fraction": round(share, 2), "phase": f"recording {name}"})
        return self._variants[name]

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the variants."""
        return iter(self._variants)

    def __len__(self) -> int:
        """Return how many variants there are."""
        return len(self._variants)


def record_and_emit(config: Mapping[str, object], emit: Emit, *, weights_only: bool) -> None:
    """Record a config, or count its weights only.

    The last line is the document, or why there is none.
    """
    # Loading torch takes seconds: whoever waits sees by now that something happens.
    from service.estimator.model.recorded.encoding import encode_recording  # noqa: PLC0415
    from worker.probes.architecture.record import VARIANTS, record_model  # noqa: PLC0415
    from worker.probes.architecture.static import count_parameters  # noqa: PLC0415

    limit()
    try:
        emit("static", count_parameters(config))
        if weights_only:
            return
        recorded = record_model(config, AnnouncedVariants(VARIANTS, emit))
        emit("recorded", {"document": {"config": config, **encode_recording(recorded)}})
    except Refusal as refusal:
        emit("refused", {"message": refusal.message})
    except MemoryError:
        emit("refused", {"message": f"it takes more than {MEMORY_BYTES:,} bytes to record"})
    except Exception as error:  # noqa: BLE001 - the same config would fail the same way
        emit("refused", {"message": _describe(error)})


def _describe(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"transformers' code does not run on this config: {type(error).__name__}: {text[:400]}"


def limit() -> None:
    """Bound processor time and memory of this process.

    Memory is bounded to what is mapped by now and the allowance.
    """
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_S, PROCESSOR_S + 5))
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard < 0 else min(limit, hard), hard))


def _redirect_stdout() -> int:
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
