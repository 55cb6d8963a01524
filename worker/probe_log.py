"""A probe's stderr, forwarded line by line to its worker's log.

The probe's own events are logged as they were, everything else as ``probe.said``.
"""

import logging
from collections.abc import Callable
from typing import Any

import msgspec

from service.base.typed import get_decoder
from service.runtime.logs import get_logger

MAX_LINES = 500
"""Lines that are logged of one attempt; a library that prints a line per layer would fill the log.
"""
MAX_LINE = 4000
_RESERVED_KEYS = frozenset(
    {
        "timestamp",
        "level",
        "logger",
        "event",
        "exc_info",
        "stack_info",
        "stacklevel",
        "extra",
        "positional_args",
    },
)

_log = get_logger(__name__)

Tell = Callable[[bytes], None]


class ProbeLog:
    """A stream of chunks that is logged by lines.

    The lines get the ids of the attempt from the process that logs them.
    """

    def __init__(self) -> None:
        """Begin with an empty line."""
        self._partial_line = b""
        self._num_lines = 0

    def feed(self, chunk: bytes) -> None:
        """Log every complete line."""
        *lines, self._partial_line = (self._partial_line + chunk).split(b"\n")
        for line in lines:
            self._log_line(line)
        if len(self._partial_line) > MAX_LINE:
            self.end()

    def end(self) -> None:
        """Log the last line, which has no line end."""
        line, self._partial_line = self._partial_line, b""
        self._log_line(line)

    def _log_line(self, line: bytes) -> None:
        if not line.strip():
            return
        self._num_lines += 1
        if self._num_lines > MAX_LINES:
            if self._num_lines == MAX_LINES + 1:
                _log.warning("probe.silenced", reason=f"it wrote more than {MAX_LINES} lines")
            return
        event = parse_event(line)
        if event is None:
            _log.info("probe.said", line=line[:MAX_LINE].decode(errors="replace").rstrip())
        else:
            _log_event(event)


def parse_event(line: bytes) -> dict[str, Any] | None:
    """Parse a line of our own log as an event.

    Returns None for any other text.
    """
    try:
        event = get_decoder(dict[str, Any]).decode(line)
    except msgspec.MsgspecError:
        return None
    return (
        event
        if isinstance(event.get("event"), str) and isinstance(event.get("logger"), str)
        else None
    )


def _log_event(event: dict[str, Any]) -> None:
    level = logging.getLevelNamesMapping().get(str(event.get("level", "")).upper(), logging.INFO)
    fields = {name: value for name, value in event.items() if name not in _RESERVED_KEYS}
    get_logger(event["logger"]).log(level, event["event"], **fields)
