"""Times as RFC 3339 in UTC."""

from datetime import UTC, datetime


def timestamp(moment: datetime) -> str:
    """Return a time as RFC 3339 in UTC."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def timestamp_or_none(moment: datetime | None) -> str | None:
    """Return a time as RFC 3339 in UTC, if there is one."""
    return None if moment is None else timestamp(moment)
