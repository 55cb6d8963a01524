"""Published measurements as questions in the words of the HTTP contract, each with what its source
read.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.accuracy.cases import TRUTH

PUBLISHED = TRUTH / "published"
SKIPPED = PUBLISHED / "skipped.json"


class Untranslatable(ValueError):  # noqa: N818 - it says what a row is, not that something went wrong
    """A row whose configuration the contract has no words for, or which its source does not
    state.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One figure as its source printed it: ``low`` to ``high`` cover half a unit of its last digit
    and doubt about its unit.
    """

    quantity: str
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCase:
    """One published run; ``scores_as`` is its class, ``group`` gets the same weight as every other
    group of its class.
    """

    id: str
    group: str
    scores_as: str
    source: str
    model: str | Mapping[str, Any]
    workload: Mapping[str, Any]
    layout: Mapping[str, Any]
    gpu: str | Mapping[str, Any]
    outcome: str
    readings: tuple[Reading, ...]
    throughput: Mapping[str, Any] = field(default_factory=dict)
    timed_on: str | None = None
    """The GPU whose rates count, where the case itself says only how much memory there was."""
    absolute: bool = False
    """Whether constants of some megabytes make relative errors meaningless: then megabytes are
    reported.
    """
    rank: str = "worst"
    """Which pipeline stage was read: the ``worst``, the ``first`` or the ``last``."""


def published_cases(scores_as: str | None = None) -> list[PublishedCase]:
    """Return the published cases, of one class or of all."""
    rows = (case_of(row) for path in sorted(PUBLISHED.glob("*.jsonl")) for row in _lines(path))
    return [case for case in rows if scores_as in {None, case.scores_as}]


def case_of(row: Mapping[str, Any]) -> PublishedCase:
    """Return a case from one line of a file under ``tests/data/truth/published``."""
    values = dict(row)
    values["scores_as"] = values.pop("class")
    values["readings"] = tuple(Reading(**reading) for reading in values["readings"])
    return PublishedCase(**values)


def skipped_rows() -> Mapping[str, Mapping[str, int]]:
    """Return how many rows of each source were left out, by reason."""
    skipped: Mapping[str, Mapping[str, int]] = (
        json.loads(SKIPPED.read_text()) if SKIPPED.exists() else {}
    )
    return skipped


def _lines(path: Path) -> Iterator[Mapping[str, Any]]:
    for line in path.read_text().splitlines():
        yield json.loads(line)
