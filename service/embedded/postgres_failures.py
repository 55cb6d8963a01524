"""Failures of an embedded Postgres, by the end of its log."""

from pathlib import Path

_FULL = "No space left on device"
_DAMAGE = (
    "could not locate a valid checkpoint record",
    "could not open directory",
    "could not open file",
    "could not read file",
    "does not exist",
    "incorrect checksum in control file",
    "invalid page",
    "invalid primary checkpoint record",
    "is not a valid data directory",
    "unexpected data beyond EOF",
)
_SEVERE = ("FATAL:", "PANIC:")


def advise(log_text: str, data: Path) -> str | None:
    """Return what to do, by a log's last severe line."""
    severe = [line for line in log_text.splitlines() if any(level in line for level in _SEVERE)]
    if not severe:
        return None
    if _FULL in severe[-1]:
        return (
            f"the disk of {data} is full: make room there and start again; what was stored before "
            "is kept"
        )
    if any(damage in severe[-1] for damage in _DAMAGE):
        return make_damage_advice(data)
    return None


def make_damage_advice(data: Path) -> str:
    """Return what to do about damaged files."""
    return (
        f"the database in {data} is damaged, and nothing of it was changed: keep a copy of it, and "
        "restore a backup into a new directory, `headroom restore FILE --data-dir NEW`"
    )
