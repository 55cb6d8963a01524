"""Entry point of probes: ``python -m worker.probes``.

It reads one request as JSON on stdin and writes JSON lines on stdout, everything else on stderr.
"""

import os
import sys
import warnings
from typing import IO

from service.jobs.codec import decode_request, encode_line
from service.jobs.contract import FailureKind, ProbeFailure, ProbeLine, ProtocolError
from service.probing.refusal import Refusal
from service.runtime.logs import configure, get_logger
from service.telemetry.origin import set_origin_from_environ
from service.telemetry.spans import send_spans, span
from service.telemetry.tracing import Kind
from worker.probes.niceness import lower_priority
from worker.probes.run.phases import Phases

_STDOUT, _STDERR = 1, 2

_log = get_logger("worker.probes")


def main() -> int:
    """Answer the request on stdin.

    The exit status says whether there was an answer, which may be a refusal.
    """
    with os.fdopen(_redirect_stdout(), "wb", buffering=0) as lines:
        configure(level=os.environ.get("HEADROOM_LOG_LEVEL") or "info", log_format="json")
        origin = set_origin_from_environ(os.environ)
        # Spans are sent before the answer is: whoever reads it ends this process.
        with (
            send_spans("headroom-probe", at_end=True),
            span("measurement.probe", kind=Kind.SERVER, parent=origin.traceparent),
        ):
            answer = _answer(sys.stdin.buffer.read(), lines)
        _emit(lines, answer)
    return 0


def _redirect_stdout() -> int:
    """Duplicate the real stdout for the protocol and redirect prints to stderr.

    These are the prints of libraries, C code included.
    """
    stdout = os.dup(_STDOUT)
    os.dup2(_STDERR, _STDOUT)
    return stdout


def _answer(body: bytes, lines: IO[bytes]) -> ProbeLine:
    try:
        request = decode_request(body)
    except ProtocolError as error:
        return ProbeFailure(kind=FailureKind.INVALID_REQUEST, message=str(error))
    _log.info("probe.began", device=request.device.value)
    warnings.simplefilter("ignore")
    lower_priority(request.device)
    # Loading torch takes seconds: a request that cannot be read is answered before.
    from worker.probes.measure import measure  # noqa: PLC0415

    phases = Phases(lambda line: _emit(lines, line))
    try:
        return measure(request, phases)
    except Refusal as refusal:
        _log.info("probe.refused", kind=refusal.kind.value, reason=refusal.message)
        return ProbeFailure(kind=refusal.kind, message=refusal.message)
    except Exception as error:  # noqa: BLE001 - the same request would fail the same way, so the job must be told and not rerun
        _log.exception("probe.failed")
        return ProbeFailure(
            kind=FailureKind.PROBE_ERROR, message=f"{type(error).__name__}: {error}"
        )
    finally:
        phases.end()


def _emit(lines: IO[bytes], line: ProbeLine) -> None:
    lines.write(encode_line(line))


if __name__ == "__main__":
    sys.exit(main())
