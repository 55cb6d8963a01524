"""Origin of the current work: request, trace and job.

Every line of the log names it.
"""

import re
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass

REQUEST_ID_VARIABLE = "HEADROOM_REQUEST_ID"
JOB_ID_VARIABLE = "HEADROOM_JOB_ID"
ATTEMPT_VARIABLE = "HEADROOM_ATTEMPT"
TRACEPARENT_VARIABLE = "TRACEPARENT"
"""As OpenTelemetry names it where one process starts another (Environment Variables as Context
Propagation Carriers).
"""
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_TRACE_ID = slice(3, 35)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Request id and parent span of the current work.

    The span is that which the work belongs beneath (W3C Trace Context); ``None`` where there is
    none.
    """

    request_id: str | None = None
    traceparent: str | None = None


NO_ORIGIN = Origin()
_CURRENT: ContextVar[tuple[Origin, Mapping[str, object]]] = ContextVar(
    "headroom_origin", default=(NO_ORIGIN, {})
)


def set_origin(origin: Origin, **ids: object) -> None:
    """Set the origin of this task or thread.

    Its ids and ``ids`` are on every line of the log from here on.
    """
    _CURRENT.set((origin, ids))


def get_current_origin() -> Origin:
    """Return the origin of this task or thread."""
    return _CURRENT.get()[0]


def get_current_ids() -> dict[str, object]:
    """Return the ids that every line of the log has.

    They are put together when a line is written, since most requests write none.
    """
    origin, ids = _CURRENT.get()
    fields = {**ids}
    if origin.request_id is not None:
        fields["request_id"] = origin.request_id
    if origin.traceparent is not None:
        fields["trace_id"] = origin.traceparent[_TRACE_ID]
    return fields


def read_traceparent(text: str) -> str | None:
    """Return a ``traceparent`` header in version 00.

    ``None`` for text that is none (W3C Trace Context, sec. 3.2).
    """
    match = _TRACEPARENT.fullmatch(text.strip())
    if match is None:
        return None
    version, trace_id, span_id, flags, suffix = match.groups()
    if (
        version == "ff"
        or (version == "00" and suffix)
        or not (trace_id.strip("0") and span_id.strip("0"))
    ):
        return None
    return f"00-{trace_id}-{span_id}-{flags}"


def to_environ(origin: Origin, *, job_id: str, attempt: int) -> dict[str, str]:
    """Return the environment variables of a process for an attempt."""
    candidates = {REQUEST_ID_VARIABLE: origin.request_id, TRACEPARENT_VARIABLE: origin.traceparent}
    variables = {name: value for name, value in candidates.items() if value is not None}
    return {**variables, JOB_ID_VARIABLE: job_id, ATTEMPT_VARIABLE: str(attempt)}


def set_origin_from_environ(environ: Mapping[str, str]) -> Origin:
    """Set and return the origin from environment variables.

    The process that started this one set them.
    """
    header = environ.get(TRACEPARENT_VARIABLE)
    origin = Origin(
        request_id=environ.get(REQUEST_ID_VARIABLE),
        traceparent=None if header is None else read_traceparent(header),
    )
    attempt = environ.get(ATTEMPT_VARIABLE, "")
    ids = {
        "job_id": environ.get(JOB_ID_VARIABLE),
        "attempt": int(attempt) if attempt.isdecimal() else None,
    }
    set_origin(origin, **{name: value for name, value in ids.items() if value is not None})
    return origin
