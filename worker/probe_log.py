"""What a probe writes to stderr, as lines of its worker's log: its own events as they were, all else as ``probe.said``."""

import logging
from collections.abc import Callable
from typing import Any

import msgspec

from service.base.typed import decoder_of
from service.runtime.logs import logger

MAX_LINES = 500
"""Of one attempt; a library that prints a line per layer would fill the log."""
MAX_LINE = 4000
_NOT_OURS = frozenset(
    {"timestamp", "level", "logger", "event", "exc_info", "stack_info", "stacklevel", "extra", "positional_args"}
)

_log = logger(__name__)

Tell = Callable[[bytes], None]


class Relay:
    """Takes chunks of a stream and tells its lines; the ids of the attempt are those of the process that tells."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._rest = b""
        self._told = 0

    def take(self, chunk: bytes) -> None:
        """Tell every line that is whole."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._tell(line)
        if len(self._rest) > MAX_LINE:
            self.end()

    def end(self) -> None:
        """Tell what is left without a line's end."""
        rest, self._rest = self._rest, b""
        self._tell(rest)

    def _tell(self, line: bytes) -> None:
        if not line.strip():
            return
        self._told += 1
        if self._told > MAX_LINES:
            if self._told == MAX_LINES + 1:
                _log.warning("probe.silenced", reason=f"it wrote more than {MAX_LINES} lines")
            return
        event = event_of(line)
        if event is None:
            _log.info("probe.said", line=line[:MAX_LINE].decode(errors="replace").rstrip())
        else:
            _tell_event(event)


def event_of(line: bytes) -> dict[str, Any] | None:
    """Return a line of our own log as the event that it is, None for any other words."""
    try:
        event = decoder_of(dict[str, Any]).decode(line)
    except msgspec.MsgspecError:
        return None
    return event if isinstance(event.get("event"), str) and isinstance(event.get("logger"), str) else None


def _tell_event(event: dict[str, Any]) -> None:
    level = logging.getLevelNamesMapping().get(str(event.get("level", "")).upper(), logging.INFO)
    rest = {name: value for name, value in event.items() if name not in _NOT_OURS}
    logger(event["logger"]).log(level, event["event"], **rest)
