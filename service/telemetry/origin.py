"""What the work at hand is for: the request that asked for it, its trace, its job. Every line of the log names it."""

import re
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass

REQUEST_ID_VARIABLE = "HEADROOM_REQUEST_ID"
JOB_ID_VARIABLE = "HEADROOM_JOB_ID"
ATTEMPT_VARIABLE = "HEADROOM_ATTEMPT"
TRACEPARENT_VARIABLE = "TRACEPARENT"
"""As OpenTelemetry names it where one process starts another (Environment Variables as Context Propagation Carriers)."""
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_TRACE_ID = slice(3, 35)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The id of a request, and the span that the work belongs beneath (W3C Trace Context); None where there is none."""

    request_id: str | None = None
    traceparent: str | None = None


NOWHERE = Origin()
_CURRENT: ContextVar[tuple[Origin, Mapping[str, object]]] = ContextVar("headroom_origin", default=(NOWHERE, {}))


def begin(origin: Origin, **ids: object) -> None:
    """Work for ``origin`` from here on, in this task or thread: its ids and ``ids`` are on every line of the log."""
    _CURRENT.set((origin, ids))


def current_origin() -> Origin:
    """Return what this task or thread works for."""
    return _CURRENT.get()[0]


def current_ids() -> dict[str, object]:
    """Return what every line of the log has; put together when a line is written, since most requests write none."""
    origin, ids = _CURRENT.get()
    told = {**ids}
    if origin.request_id is not None:
        told["request_id"] = origin.request_id
    if origin.traceparent is not None:
        told["trace_id"] = origin.traceparent[_TRACE_ID]
    return told


def read_traceparent(text: str) -> str | None:
    """Return a ``traceparent`` header in the version that we write, None for what is none (W3C Trace Context, sec. 3.2)."""
    found = _TRACEPARENT.fullmatch(text.strip())
    if found is None:
        return None
    version, trace_id, span_id, flags, rest = found.groups()
    if version == "ff" or (version == "00" and rest) or not (trace_id.strip("0") and span_id.strip("0")):
        return None
    return f"00-{trace_id}-{span_id}-{flags}"


def to_environ(origin: Origin, *, job_id: str, attempt: int) -> dict[str, str]:
    """Return what a process reads that is started for an attempt."""
    known = {REQUEST_ID_VARIABLE: origin.request_id, TRACEPARENT_VARIABLE: origin.traceparent}
    told = {name: value for name, value in known.items() if value is not None}
    return {**told, JOB_ID_VARIABLE: job_id, ATTEMPT_VARIABLE: str(attempt)}


def begin_from(environ: Mapping[str, str]) -> Origin:
    """Work for what the starting process said, and return it."""
    told = environ.get(TRACEPARENT_VARIABLE)
    origin = Origin(request_id=environ.get(REQUEST_ID_VARIABLE), traceparent=None if told is None else read_traceparent(told))
    attempt = environ.get(ATTEMPT_VARIABLE, "")
    ids = {"job_id": environ.get(JOB_ID_VARIABLE), "attempt": int(attempt) if attempt.isdecimal() else None}
    begin(origin, **{name: value for name, value in ids.items() if value is not None})
    return origin
