"""Schedulers as a submission sees them."""

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

    def prepare(self, document: Any, submission_id: str) -> str:  # noqa: ANN401 - JSON
        """Return the text that is submitted."""

    def submit(self, entry: Entry) -> str:
        """Hand the job over, marked, and return its id."""

    def find(self, entry: Entry) -> Sighting:
        """Look for the job by its mark."""
