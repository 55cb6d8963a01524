"""Progress and samples on their way to Postgres.

There are a few writes per second at most, and none of them can stop a probe.
"""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from service.base.errors import ServiceError, UnavailableError
from service.jobs.contract import Planned, ProbeUpdate, Progress, Sample
from service.runtime.logs import get_logger
from service.usecases.jobs.attempts import Unwritten

REPORT_INTERVAL_S = 0.5
MAX_WAITING_SAMPLES = 10_000

_log = get_logger(__name__)


class Write(Protocol):
    """A callback that stores what came since the last call.

    Returns False when the attempt is no longer the running one.
    """

    def __call__(
        self,
        *,
        progress: Progress | None,
        samples: Sequence[Sample],
        samples_before: int,
        planned: Planned | None,
    ) -> bool:
        """Write once."""
        ...


class Reporter:
    """Collects a probe's lines and writes them when they are due."""

    def __init__(self, write: Write, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Write through ``write``, the first line at once."""
        self._write = write
        self._clock = clock
        self._progress: Progress | None = None
        self._planned: Planned | None = None
        self._samples: list[Sample] = []
        self._written = 0
        self._due = clock()

    def take(self, line: ProbeUpdate) -> None:
        """Buffer a line for the next write.

        Of several progress lines the last counts.
        """
        if isinstance(line, Progress):
            self._progress = line
        elif isinstance(line, Planned):
            self._planned = line
        elif len(self._samples) < MAX_WAITING_SAMPLES:
            self._samples.append(line)

    @property
    def unwritten(self) -> Unwritten:
        """The samples that wait: they go with the outcome, or nowhere."""
        return Unwritten(samples=tuple(self._samples), before=self._written)

    def flush_if_due(self) -> None:
        """Write what waits, unless the last write was a moment ago."""
        if self._clock() >= self._due:
            self.flush()

    def flush(self) -> None:
        """Write what waits.

        Without a database, or while the attempt is not the running one, it goes on waiting.
        """
        if self._progress is None and self._planned is None and not self._samples:
            return
        self._due = self._clock() + REPORT_INTERVAL_S
        try:
            if not self._write(
                progress=self._progress,
                samples=self._samples,
                samples_before=self._written,
                planned=self._planned,
            ):
                return
        except UnavailableError as error:
            _log.warning("report.missed", reason=error.detail)
            return
        except ServiceError as error:
            _log.warning("report.dropped", reason=error.detail)
        self._written += len(self._samples)
        self._progress, self._planned, self._samples = None, None, []
