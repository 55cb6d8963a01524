"""Structured logging on stderr.

Events with keys, one JSON object or one console line each; libraries' records look the same.
"""

import logging
import re
import sys
from typing import TextIO

import structlog
from structlog.types import EventDict, Processor, WrappedLogger

from service.telemetry.origin import get_current_ids

_SECRETS = (
    (re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]+(?=@)"), r"\1:…"),
    (re.compile(r"(hr_[0-9a-f]{12})_[A-Za-z0-9_-]{43}"), r"\1_…"),
    (re.compile(r"((?i:bearer)\s+)[A-Za-z0-9._~+/=-]{20,}"), r"\1…"),
)
"""Passwords in URLs, keys of ours (but for what may be shown of them), and whatever else somebody
bears.
"""
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What moves a terminal's cursor, or turns the order of what it shows; a stranger's text may have
it. Ends of lines and tabs of tracebacks are none.
"""
_QUIET = ("alembic", "httpx", "httpcore", "rq", "sqlalchemy.engine", "urllib3")


def configure(*, level: str, log_format: str, stream: TextIO | None = None) -> None:
    """Send the service's events and libraries' records to ``stream``.

    The default is stderr. Call once, from a composition root.
    """
    stream = stream or sys.stderr
    shared: list[Processor] = [
        _add_ids,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        # a second configure(), as in tests, must reach loggers that exist
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_build_renderers(log_format, stream),
            ],
        ),
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(root.level, logging.WARNING))


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """Return a logger that is configured at first use.

    So a module may hold one.
    """
    bound: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return bound


def _add_ids(_wrapped: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Add the ids of the current work.

    Keys of the event itself come first.
    """
    return {**get_current_ids(), **event}


def _build_renderers(log_format: str, stream: TextIO) -> list[Processor]:
    if log_format == "json":
        return [
            structlog.processors.format_exc_info,
            _redact_secrets(_render_json),
        ]
    console = structlog.dev.ConsoleRenderer(
        colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback
    )
    # The values of keys are spelled by the renderer itself.
    return [structlog.processors.format_exc_info, _spell_texts, _redact_secrets(console)]


def _render_json(wrapped: WrappedLogger, method: str, event: EventDict) -> str:
    line = structlog.processors.JSONRenderer(ensure_ascii=False)(wrapped, method, event)
    text = line if isinstance(line, str) else line.decode()
    return _CONTROLS.sub(lambda control: f"\\u{ord(control[0]):04x}", text)


def _spell_texts(_wrapped: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Spell control characters out, and keep an event in its line."""
    spelled = {
        name: _spell(text)
        for name in ("event", "exception", "stack")
        if isinstance(text := event.get(name), str)
    }
    if "event" in spelled:
        spelled["event"] = spelled["event"].replace("\n", "\\n")
    return {**event, **spelled}


def _spell(text: str) -> str:
    return _CONTROLS.sub(lambda control: ascii(control[0])[1:-1], text)


def _redact_secrets(render: Processor) -> Processor:
    """Replace every secret in the finished line.

    In keys, messages and tracebacks alike.
    """

    def render_safely(wrapped: WrappedLogger, method: str, event: EventDict) -> str:
        line = str(render(wrapped, method, event))
        for secret, replacement in _SECRETS:
            line = secret.sub(replacement, line)
        return line

    return render_safely
