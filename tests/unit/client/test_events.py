"""Server-sent events, as the standard has them."""

from service.client.events import ServerEvent, read_events


def test_events_end_with_an_empty_line() -> None:
    """Fields of one event are gathered; one space after the colon is not part of the value."""
    lines = ["id: 7", "event: progress", 'data: {"progress": 0.5}', "", "data:  x", ""]

    assert list(read_events(lines)) == [
        ServerEvent(id="7", kind="progress", data='{"progress": 0.5}'),
        ServerEvent(id="7", kind="message", data=" x"),
    ]


def test_comments_are_heartbeats() -> None:
    """A comment neither is an event nor ends one."""
    assert list(read_events([": still here", "", "data: a", ": still here", "data: b", ""])) == [
        ServerEvent(id="", kind="message", data="a\nb")
    ]


def test_an_event_that_was_cut_off_is_dropped() -> None:
    """What comes after the last empty line may be half an event."""
    assert list(read_events(["data: a", "", "data: b"])) == [
        ServerEvent(id="", kind="message", data="a")
    ]
