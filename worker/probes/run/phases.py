"""Each phase of a measurement as a span, beside the lines that tell of it."""

from collections.abc import Callable
from contextlib import ExitStack

from service.jobs.contract import ProbeLine, Progress
from service.telemetry.spans import span


class Phases:
    """Passes lines on; a line of progress ends the phase before it and begins its own."""

    def __init__(self, say: Callable[[ProbeLine], None]) -> None:
        """Say through ``say``."""
        self._say = say
        self._open = ExitStack()

    def __call__(self, line: ProbeLine) -> None:
        """Say a line."""
        if isinstance(line, Progress):
            self._open.close()
            # "2 of 32 layers, 512 tokens: forward": what is run is an attribute, since names of spans should be few.
            about, _, name = line.phase.rpartition(": ")
            self._open.enter_context(span(name, about=about or name))
        self._say(line)

    def end(self) -> None:
        """End the phase that is open."""
        self._open.close()
