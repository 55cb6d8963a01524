"""``python -m worker.probes``: one request as JSON on stdin, JSON lines on stdout, everything else on stderr."""

import os
import sys
import traceback
import warnings
from typing import IO

from service.jobs.contract import FailureKind, ProbeFailure, ProbeLine, ProtocolError
from service.jobs.wire import decode_request, encode_line
from worker.probes.refusal import Refusal

_STDOUT, _STDERR = 1, 2


def main() -> int:
    """Answer the request on stdin; the exit status says whether there was an answer, which may be a refusal."""
    with os.fdopen(_private_stdout(), "wb", buffering=0) as lines:
        _say(lines, _answer(sys.stdin.buffer.read(), lines))
    return 0


def _private_stdout() -> int:
    """Keep the real stdout for the protocol and send what libraries print, C code included, to stderr."""
    kept = os.dup(_STDOUT)
    os.dup2(_STDERR, _STDOUT)
    return kept


def _answer(body: bytes, lines: IO[bytes]) -> ProbeLine:
    try:
        request = decode_request(body)
    except ProtocolError as error:
        return ProbeFailure(kind=FailureKind.INVALID_REQUEST, message=str(error))
    warnings.simplefilter("ignore")
    # Loading torch takes seconds: a request that cannot be read is answered before.
    from worker.probes.measure import measure  # noqa: PLC0415

    try:
        return measure(request, lambda line: _say(lines, line))
    except Refusal as refusal:
        return ProbeFailure(kind=refusal.kind, message=refusal.message)
    except Exception as error:  # noqa: BLE001 - the same request would fail the same way, so the job must be told and not rerun
        traceback.print_exc()
        return ProbeFailure(kind=FailureKind.PROBE_ERROR, message=f"{type(error).__name__}: {error}")


def _say(lines: IO[bytes], line: ProbeLine) -> None:
    lines.write(encode_line(line))


if __name__ == "__main__":
    sys.exit(main())
