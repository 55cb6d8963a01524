"""Spans of a measurement's phases."""

from collections.abc import Callable
from contextlib import ExitStack

from service.jobs.contract import ProbeLine, Progress
from service.telemetry.spans import span


class Phases:
    """Passes lines on and keeps a span open for each phase.

    A line of progress ends the phase before it and begins its own.
    """

    def __init__(self, emit: Callable[[ProbeLine], None]) -> None:
        """Emit lines through ``emit``."""
        self._emit = emit
        self._open = ExitStack()

    def __call__(self, line: ProbeLine) -> None:
        """Emit a line."""
        if isinstance(line, Progress):
            self._open.close()
            # "2 of 32 layers, 512 tokens: forward": what is run is an attribute, since names of
            # spans should be few.
            about, _, name = line.phase.rpartition(": ")
            self._open.enter_context(span(name, about=about or name))
        self._emit(line)

    def end(self) -> None:
        """End the phase that is open."""
        self._open.close()
