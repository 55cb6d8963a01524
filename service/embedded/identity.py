"""Identity of a recorded process.

A process id alone is soon another program's.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_DEAD = {"Z", "X", "x"}
_STATE, _START_TIME = 0, 19


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """Unique identity of a process: id, start time and boot.

    The start is in clock ticks since boot.
    """

    pid: int
    start_ticks: int
    boot_id: str


def identify(pid: int) -> ProcessIdentity | None:
    """Return the identity of the process ``pid``, or None.

    A zombie runs no more (proc_pid_stat(5)).
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    # The name stands in parentheses and may hold any character, so the fields count from the last
    # one.
    fields = stat.rpartition(")")[2].split()
    if fields[_STATE] in _DEAD:
        return None
    return ProcessIdentity(
        pid=pid,
        start_ticks=int(fields[_START_TIME]),
        boot_id=_BOOT_ID.read_text(encoding="ascii").strip(),
    )


def is_alive(identity: ProcessIdentity) -> bool:
    """Return whether exactly this process still runs."""
    return identify(identity.pid) == identity


def write_record(path: Path, identity: ProcessIdentity) -> None:
    """Replace the record in one step.

    A reader sees the old one or the new one.
    """
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(asdict(identity)), encoding="ascii")
    draft.replace(path)


def read_record(path: Path) -> ProcessIdentity | None:
    """Return the recorded identity, or None without a valid record."""
    try:
        return ProcessIdentity(**json.loads(path.read_text(encoding="ascii")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        # The write is one step to every process, but not to a power failure, and that no recorded
        # process outlived.
        return None


def get_own_identity() -> ProcessIdentity:
    """Return the identity of this process."""
    identity = identify(os.getpid())
    assert identity is not None  # noqa: S101 - this process runs
    return identity
