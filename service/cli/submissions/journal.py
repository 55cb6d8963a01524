"""Journal of submissions: what a process that died had begun."""

import fcntl
import getpass
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, TextIO

from service.base.errors import InvalidRequestError, ServiceError

_OWNER_DIGITS = 6
_OPEN, _ENDED = ".json", ".ended"
_REMEMBERED_S = timedelta(days=30).total_seconds()
"""For how long the same submission is the same job after its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """State of one submission.

    ``owner`` is the user who submits, as their machine calls them, and ``target`` where their
    scheduler is, as its client is told; entries of earlier versions have neither. ``attempt``
    counts the reservations that were asked for, each under a key of its own; ``sent_at`` is when
    the scheduler was last asked to take the job, in seconds since the epoch. ``question`` is what
    the plan answered, a body of ``POST /v1/fit``, and ``digest`` its name on the server, empty
    where that has none.
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
    question: dict[str, Any] | None = None
    digest: str = ""

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
    """Entries in a folder.

    One that is over has another name, so that looks at the open ones read no other. An entry under
    the wrong name, left by a crash or an earlier version, is read all the same.
    """

    folder: Path

    def read(self, submission_id: str) -> Entry | None:
        """Return an entry, or None where there was no such submission.

        Raises ServiceError for one that cannot be read.
        """
        for path in (self._get_path(submission_id), self._get_ended_path(submission_id)):
            try:
                return Entry(**json.loads(path.read_text(encoding="utf-8")))
            except FileNotFoundError:
                continue
            except (OSError, ValueError, TypeError) as error:
                message = f"cannot read the journal of submission {submission_id}, {path}: {error}"
                raise ServiceError(message) from None
        return None

    def write(self, entry: Entry) -> Entry:
        """Store an entry, durably and as a unit."""
        path, ended_path = self._get_path(entry.id), self._get_ended_path(entry.id)
        if not entry.is_over and ended_path.exists():
            # It is open before it says so: a look would pass it over otherwise.
            ended_path.replace(path)
        draft = path.with_suffix(".new")
        with draft.open("w", encoding="utf-8") as handle:
            json.dump(asdict(entry), handle)
            handle.flush()
            os.fsync(handle.fileno())
        draft.replace(path)
        if entry.is_over:
            path.replace(ended_path)
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            # The new name is on the disk only when the folder is.
            os.fsync(folder)
        finally:
            os.close(folder)
        return entry

    def list_open(self) -> list[str]:
        """Return the ids of submissions whose job may not have ended."""
        return sorted(path.stem for path in self.folder.glob(f"*{_OPEN}"))

    def prune(self) -> None:
        """Remove submissions that have been over for long, with their locks."""
        for path in self.folder.glob(f"*{_ENDED}"):
            if not _is_old(path):
                continue
            with self.lock(path.stem) as is_free:
                # Another process may have opened it again, or removed it.
                if is_free and _is_old(path):
                    path.unlink()
                    self._get_lock_path(path.stem).unlink(missing_ok=True)

    @contextmanager
    def lock(self, submission_id: str) -> Iterator[bool]:
        """Lock a submission; yields False where another process is at it.

        Raises ServiceError where the lock is not this user's.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_free = True
        with ExitStack() as stack:
            try:
                stack.enter_context(_open_lock(self._get_lock_path(submission_id)))
            except BlockingIOError:
                is_free = False
            except OSError as error:
                message = f"cannot lock submission {submission_id}: {error}"
                raise ServiceError(message) from None
            # The kernel lets go of it when the last of its processes ends, however it ends.
            yield is_free

    def _get_path(self, submission_id: str) -> Path:
        return self.folder / f"{submission_id}{_OPEN}"

    def _get_ended_path(self, submission_id: str) -> Path:
        return self.folder / f"{submission_id}{_ENDED}"

    def _get_lock_path(self, submission_id: str) -> Path:
        return self.folder / f"{submission_id}.lock"


def _open_lock(path: Path) -> TextIO:
    """Return the open, locked file.

    Raises BlockingIOError where another process has it.
    """
    while True:
        handle = path.open("a")
        try:
            # A client of a scheduler may submit after this process was killed: it holds it too.
            os.set_inheritable(handle.fileno(), True)  # noqa: FBT003 - it has no name
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(path, handle):
                return handle
        except BaseException:
            handle.close()
            raise
        # It was removed since it was opened, and who opens the next one would not see the lock.
        handle.close()


def _is_at(path: Path, handle: TextIO) -> bool:
    try:
        return os.path.samestat(os.fstat(handle.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _is_old(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > _REMEMBERED_S
    except FileNotFoundError:
        return False


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
