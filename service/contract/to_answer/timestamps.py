"""Times as RFC 3339 in UTC."""

from datetime import UTC, datetime


def format_timestamp(moment: datetime) -> str:
    """Return a time as RFC 3339 in UTC."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def format_optional_timestamp(moment: datetime | None) -> str | None:
    """Return a time as RFC 3339 in UTC, if there is one."""
    return None if moment is None else format_timestamp(moment)
