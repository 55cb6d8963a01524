"""Server-sent events, read line by line (WHATWG HTML, 9.2)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEvent:
    """One event: its number, its kind and its data as text."""

    id: str
    kind: str
    data: str


def read_events(lines: Iterable[str]) -> Iterator[ServerEvent]:
    """Yield each complete event.

    Comments are heartbeats and carry nothing; an event cut off at the end is dropped.
    """
    fields: dict[str, str] = {}
    last_id = ""
    for line in lines:
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            # Several data lines are one text.
            fields[name] = (
                f"{fields[name]}\n{value}" if name == "data" and name in fields else value
            )
            continue
        last_id = fields.get("id", last_id)
        if "data" in fields:
            yield ServerEvent(id=last_id, kind=fields.get("event", "message"), data=fields["data"])
        fields = {}
