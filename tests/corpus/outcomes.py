"""Results of reading launches, counted by project."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from service.estimator.values.errors import InvalidInputError
from service.formats.launches.read_launch import read_launch
from service.formats.launches.values.launch import ImportedLaunch
from tests.corpus.manifest import Entry, read_entry

_PLACE = re.compile(r"^(?:[\w./+-]+:\d+|[\w./+-]+\.\w+): ")
_PROGRAM = re.compile(r"^[\w. -]+ \([^)]*\): |^[\w.-]+\.py (?=trains by)")
_NUMBER = re.compile(r"^\d+ launches:.*")
_MAX_REASON = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One launch read, refused in words, or crashed on."""

    entry: Entry
    imported: ImportedLaunch | None = None
    refusal: str | None = None
    crash: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectCounts:
    """Launches and settings of a project by what became of them."""

    launches: int
    imported: int
    read: int
    without_effect: int
    ignored: int
    asked: int
    refusals: Mapping[str, int] = field(default_factory=dict)


def read_outcome(clones: Path, entry: Entry) -> Outcome:
    """Return what becomes of a launch."""
    try:
        return Outcome(entry=entry, imported=read_launch(read_entry(clones, entry)))
    except InvalidInputError as error:
        return Outcome(entry=entry, refusal=error.message)
    except Exception as error:  # noqa: BLE001 - a crash is what is looked for
        return Outcome(entry=entry, crash=f"{type(error).__name__}: {error}")


def count_project(outcomes: Iterable[Outcome]) -> ProjectCounts:
    """Return the counts of one project's launches."""
    entries = list(outcomes)
    imported = [entry.imported for entry in entries if entry.imported is not None]
    reasons = [shorten_reason(entry.refusal) for entry in entries if entry.refusal is not None]
    return ProjectCounts(
        launches=len(entries),
        imported=len(imported),
        read=sum(not key.where.startswith("default") for one in imported for key in one.read),
        without_effect=sum(len(one.without_effect) for one in imported),
        ignored=sum(len(one.ignored) for one in imported),
        asked=sum(len(one.questions) for one in imported),
        refusals=dict(Counter(reasons).most_common()),
    )


def shorten_reason(message: str) -> str:
    """Return a refusal without its place and program."""
    reason = _PROGRAM.sub("", _PLACE.sub("", message)).partition(";")[0]
    reason = _NUMBER.sub("several launches in one script", reason)
    return " ".join(reason.replace("|", "/").split())[:_MAX_REASON]
