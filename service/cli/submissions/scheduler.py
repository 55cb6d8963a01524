"""Schedulers as a submission sees them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from service.cli.submissions.journal import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """Knowledge of a scheduler of one submission.

    Where it knows no job, ``is_certain`` says that there never was one.
    """

    job: str | None = None
    is_alive: bool = False
    is_certain: bool = False


class Scheduler(Protocol):
    """Client of one scheduler."""

    format: str
    """The format of a plan that it takes."""

    def locate(self) -> Mapping[str, str]:
        """Return where it is now, for every later call of its client.

        Another directory, another default or cron would else ask another scheduler, which knows no
        job.
        """

    def prepare(self, document: Any, entry: Entry) -> str:  # noqa: ANN401 - JSON
        """Return the text to submit, which becomes the payload."""

    def submit(self, entry: Entry) -> str:
        """Hand the job over, marked, and return its id."""

    def find(self, entry: Entry) -> Sighting:
        """Look for the job by its mark."""
