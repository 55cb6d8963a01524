"""Logging: events with keys, one JSON object or one console line each, on stderr; libraries' records look the same."""

import logging
import re
import sys
from typing import TextIO

import structlog
from structlog.types import EventDict, Processor, WrappedLogger

from service.telemetry.origin import current_ids

_SECRETS = (
    (re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]+(?=@)"), r"\1:…"),
    (re.compile(r"(hr_[0-9a-f]{12})_[A-Za-z0-9_-]{43}"), r"\1_…"),
    (re.compile(r"((?i:bearer)\s+)[A-Za-z0-9._~+/=-]{20,}"), r"\1…"),
)
"""Passwords in URLs, keys of ours (but for what may be shown of them), and whatever else somebody bears."""
_QUIET = ("alembic", "httpx", "httpcore", "rq", "sqlalchemy.engine", "urllib3")


def configure(*, level: str, log_format: str, stream: TextIO | None = None) -> None:
    """Send our events and the libraries' records to ``stream`` (stderr); call once, from a composition root."""
    stream = stream or sys.stderr
    shared: list[Processor] = [
        _with_ids,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,  # a second configure(), as in tests, must reach loggers that exist
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_renderers(log_format, stream)],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(root.level, logging.WARNING))


def logger(name: str) -> structlog.stdlib.BoundLogger:
    """Return a logger that is configured when it is first used, so a module may hold one."""
    bound: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return bound


def _with_ids(_wrapped: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Add what the work at hand is for; what the event says itself holds."""
    return {**current_ids(), **event}


def _renderers(log_format: str, stream: TextIO) -> list[Processor]:
    if log_format == "json":
        return [structlog.processors.format_exc_info, _without_secrets(structlog.processors.JSONRenderer(ensure_ascii=False))]
    console = structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback)
    return [_without_secrets(console)]


def _without_secrets(render: Processor) -> Processor:
    """Replace every secret in the finished line: in keys, messages and tracebacks alike."""

    def render_safely(wrapped: WrappedLogger, method: str, event: EventDict) -> str:
        line = str(render(wrapped, method, event))
        for secret, shown in _SECRETS:
            line = secret.sub(shown, line)
        return line

    return render_safely
