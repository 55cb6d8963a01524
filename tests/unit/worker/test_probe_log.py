"""What a probe writes to stderr becomes lines of its worker's log."""

from structlog.testing import capture_logs

from worker.probe_log import MAX_LINE, MAX_LINES, ProbeLog


def told(*chunks: bytes) -> list[dict[str, object]]:
    """Return the events that come of chunks."""
    with capture_logs() as lines:
        relay = ProbeLog()
        for chunk in chunks:
            relay.feed(chunk)
        relay.end()
    return [dict(line) for line in lines]


def test_events_stay_events() -> None:
    """An event of the probe keeps its name, level and keys, wherever its line was cut on the
    way.
    """
    line = b'{"event":"probe.began","level":"warning","logger":"__main__","timestamp":"2026","device":"cpu"}\n'  # noqa: E501

    assert told(line[:20], line[20:]) == [
        {"event": "probe.began", "log_level": "warning", "device": "cpu"}
    ]


def test_what_libraries_print_is_told_as_said() -> None:
    """Words are words, also JSON that is no event of ours; empty lines are nothing, and a line
    without an end is one too.
    """
    lines = told(b'Loading \xff\n\n[1]\n{"event": 3}\nlast words')

    assert [line["event"] for line in lines] == ["probe.said"] * 4
    assert [line["line"] for line in lines] == [
        "Loading \N{REPLACEMENT CHARACTER}",
        "[1]",
        '{"event": 3}',
        "last words",
    ]


def test_an_event_cannot_break_the_log() -> None:
    """Keys that the log would take for its own are dropped, and a level that nobody knows is an
    information.
    """
    (line,) = told(
        b'{"event":"e","logger":"l","level":"loud","exc_info":true,"stack_info":true,"extra":{},"kept":1}\n'
    )

    assert line == {"event": "e", "log_level": "info", "kept": 1}


def test_a_probe_cannot_fill_the_log() -> None:
    """Past so many lines it is silenced, once and in words; a line without an end is cut."""
    lines = told(b"again\n" * (MAX_LINES + 10))
    (long, *_rest) = told(b"x" * (3 * MAX_LINE))

    assert [line["event"] for line in lines[MAX_LINES:]] == ["probe.silenced"]
    assert len(str(long["line"])) == MAX_LINE
