"""Journal of submissions: what a process that died had begun."""

import fcntl
import getpass
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from service.base.errors import InvalidRequestError, ServiceError

_OWNER_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """State of one submission.

    ``owner`` is the user who submits, as their machine calls them, and ``target`` where their
    scheduler is, as its client is told; entries of earlier versions have neither. ``attempt``
    counts the reservations that were asked for, each under a key of its own; ``sent_at`` is when
    the scheduler was last asked to take the job, in seconds since the epoch.
    """

    id: str
    scheduler: str
    server: str
    cluster: str
    holder: str
    payload: str
    placement: dict[str, Any]
    lease_s: int
    owner: str = ""
    target: Mapping[str, str] = field(default_factory=dict)
    attempt: int = 1
    reservation: str | None = None
    sent_at: float | None = None
    job: str | None = None
    is_over: bool = False

    @property
    def tag(self) -> str:
        """Id of the submission, and whose it is.

        Users who share a scheduler or a server choose their ids alone.
        """
        if not self.owner:
            return self.id
        return f"{self.id}-{hashlib.sha256(self.owner.encode()).hexdigest()[:_OWNER_DIGITS]}"

    @property
    def mark(self) -> str:
        """Name by which the scheduler knows the job."""
        return f"headroom-{self.tag}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """Entries in a folder."""

    folder: Path

    def read(self, submission_id: str) -> Entry | None:
        """Return an entry, or None where there was no such submission."""
        path = self._get_path(submission_id)
        try:
            return Entry(**json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            message = f"cannot read the journal of submission {submission_id}, {path}: {error}"
            raise ServiceError(message) from None

    def write(self, entry: Entry) -> Entry:
        """Store an entry, durably and as a unit."""
        path = self._get_path(entry.id)
        draft = path.with_suffix(".new")
        with draft.open("w", encoding="utf-8") as handle:
            json.dump(asdict(entry), handle)
            handle.flush()
            os.fsync(handle.fileno())
        draft.replace(path)
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            # The new name is on the disk only when the folder is.
            os.fsync(folder)
        finally:
            os.close(folder)
        return entry

    def list_open(self) -> list[str]:
        """Return the ids of submissions whose job has not ended."""
        entries = [self.read(path.stem) for path in sorted(self.folder.glob("*.json"))]
        return [entry.id for entry in entries if entry is not None and not entry.is_over]

    @contextmanager
    def lock(self, submission_id: str) -> Iterator[bool]:
        """Lock a submission; yields False where another process is at it."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self.folder / f"{submission_id}.lock").open("a") as handle:
            # A client of a scheduler may submit after this process was killed: it holds it too.
            os.set_inheritable(handle.fileno(), True)  # noqa: FBT003 - it has no name
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                # The kernel lets go of it when the last of them ends, however it ends.
                yield True

    def _get_path(self, submission_id: str) -> Path:
        return self.folder / f"{submission_id}.json"


def find_user() -> str:
    """Return the name of the user of this process, or their number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container may run as a number that has no name.
        return str(os.getuid())


def find_journal(folder: Path | None) -> Journal:
    """Return the journal in a folder, else the user's.

    See the XDG Base Directory Specification.
    """
    if folder is not None:
        return Journal(folder=folder)
    base = os.environ.get("XDG_STATE_HOME", "")
    try:
        state = Path(base) if Path(base).is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError:
        message = "this user has no home; say where the journal lies with --journal FOLDER"
        raise InvalidRequestError(message) from None
    return Journal(folder=state / "headroom" / "submissions")
