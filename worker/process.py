"""One probe process: its request, its messages and its end."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

from service.jobs.codec import decode_line, encode_request
from service.jobs.contract import (
    ProbeFailure,
    ProbeLine,
    ProbeRequest,
    ProbeResult,
    ProbeUpdate,
    ProtocolError,
)
from service.runtime.deadline import Allowance, DeadlineExceeded
from service.runtime.line_process import (
    Ended,
    Process,
    Stopped,
    follow_process,
    start_process,
)
from service.runtime.process_user import ProcessUser
from worker.probe_log import parse_event

MAX_LINE_BYTES = 1 << 20
STDERR_EXCERPT_CHARS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Died:
    """The process ended without an answer; another attempt may do better."""

    reason: str


Outcome = ProbeResult | ProbeFailure | Died | DeadlineExceeded | Stopped


def start_probe(
    command: Sequence[str],
    request: ProbeRequest,
    environ: Mapping[str, str] | None = None,
    *,
    user: ProcessUser | None = None,
) -> AbstractContextManager[Process]:
    """Run ``command`` as a probe for the length of a block.

    It inherits the files that the request names, and no others. Call it from the main thread and
    before any other thread exists.
    """
    return start_process(
        command,
        encode_request(request),
        environ=environ,
        pass_fds=tuple(request.files.values()),
        ties_to_parent=True,
        user=user,
    )


def follow_probe(
    process: Process,
    *,
    allowance: Allowance,
    on_line: Callable[[ProbeUpdate], None],
    should_stop: Callable[[], bool],
    on_stderr: Callable[[bytes], None] = lambda _chunk: None,
) -> Outcome:
    """Read the probe's lines until it answers or must end.

    It ends when it dies, is no longer wanted, or has used its ``allowance``. ``on_stderr`` gets its
    stderr in chunks; what it wrote there before its answer comes before the answer.
    """
    outcome: Outcome | Ended = follow_process(
        process,
        partial(_take, on_line=on_line),
        allowance=allowance,
        max_line_bytes=MAX_LINE_BYTES,
        should_stop=should_stop,
        on_stderr=on_stderr,
    )
    return Died(reason=_describe_death(outcome)) if isinstance(outcome, Ended) else outcome


def _take(
    line: bytes, on_line: Callable[[ProbeUpdate], None]
) -> ProbeResult | ProbeFailure | Died | None:
    try:
        message: ProbeLine = decode_line(line)
    except ProtocolError as error:
        return Died(reason=f"the probe wrote {line[:80]!r}: {error}")
    if isinstance(message, ProbeResult | ProbeFailure):
        return message
    on_line(message)
    return None


def _describe_death(ended: Ended) -> str:
    # What the probe logged is in the log; of an error it would say as little as of anything.
    excerpt = "\n".join(
        line for line in ended.stderr.splitlines() if parse_event(line.encode()) is None
    ).strip()
    return f"the probe {ended.describe()}" + (
        f"; its last words: {excerpt[-STDERR_EXCERPT_CHARS:]}" if excerpt else ""
    )
