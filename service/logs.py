"""Logging: events with keys, one JSON object or one console line each, on stderr; libraries' records look the same."""

import logging
import re
import sys
from typing import TextIO

import structlog
from structlog.types import EventDict, Processor, WrappedLogger

_PASSWORD = re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]+(?=@)")
_QUIET = ("alembic", "httpx", "httpcore", "rq", "sqlalchemy.engine", "urllib3")


def configure(*, level: str, log_format: str, stream: TextIO | None = None) -> None:
    """Send our events and the libraries' records to ``stream`` (stderr); call once, from a composition root."""
    stream = stream or sys.stderr
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        hide_passwords,
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


def hide_passwords(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace the password of every URL among the values of an event."""
    return {key: _PASSWORD.sub(r"\1:…", value) if isinstance(value, str) else value for key, value in event.items()}


def _renderers(log_format: str, stream: TextIO) -> list[Processor]:
    if log_format == "json":
        return [structlog.processors.format_exc_info, hide_passwords, structlog.processors.JSONRenderer(ensure_ascii=False)]
    return [structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback)]
