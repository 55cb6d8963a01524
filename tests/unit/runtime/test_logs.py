"""Logs are events with keys; what libraries say looks the same, and passwords stay out."""

import contextvars
import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest
import structlog

from service.runtime.logs import configure, get_logger
from service.telemetry.origin import Origin, set_origin


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    """Give the process back the logging that it had: structlog and the root logger are global."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_an_event_is_one_json_line() -> None:
    """A collector reads the event's name and its keys, not prose."""
    stream = io.StringIO()
    configure(level="info", log_format="json", stream=stream)
    get_logger("test.it").info("measurement.recorded", job_id="j1", peak_bytes=17)

    (line,) = stream.getvalue().splitlines()
    event = json.loads(line)
    assert event.pop("timestamp").endswith("Z")
    assert event == {
        "event": "measurement.recorded",
        "job_id": "j1",
        "peak_bytes": 17,
        "level": "info",
        "logger": "test.it",
    }


def test_every_line_says_what_it_is_for() -> None:
    """Ids of the work at hand are on lines of ours and of libraries; what an event says itself
    holds.
    """
    stream = io.StringIO()
    configure(level="info", log_format="json", stream=stream)

    def work() -> None:
        set_origin(Origin(request_id="r1"), job_id="j1")
        get_logger("ours").info("one")
        logging.getLogger("lib").warning("two")
        get_logger("ours").info("three", job_id="j2")

    contextvars.Context().run(work)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]

    assert [(line["event"], line["request_id"], line["job_id"]) for line in lines] == [
        ("one", "r1", "j1"),
        ("two", "r1", "j1"),
        ("three", "r1", "j2"),
    ]


def test_a_library_looks_like_us() -> None:
    """Records of the standard library become events too, with their arguments filled in."""
    stream = io.StringIO()
    configure(level="info", log_format="json", stream=stream)
    logging.getLogger("uvicorn.error").warning("listening on %s", "port 8000")

    event = json.loads(stream.getvalue())
    assert (event["event"], event["level"], event["logger"]) == (
        "listening on port 8000",
        "warning",
        "uvicorn.error",
    )


def test_the_level_holds_back() -> None:
    """Below the level nothing is written, and chatty libraries start at warnings."""
    stream = io.StringIO()
    configure(level="info", log_format="json", stream=stream)
    get_logger("ours").debug("too.fine")
    logging.getLogger("alembic.runtime.migration").info("Context impl PostgresqlImpl.")
    logging.getLogger("httpx").info("HTTP Request: GET …")

    assert stream.getvalue() == ""


def test_a_traceback_stays_in_its_line() -> None:
    """A collector that reads line by line gets the traceback with its event."""
    stream = io.StringIO()
    configure(level="info", log_format="json", stream=stream)
    try:
        _ = 1 // 0
    except ZeroDivisionError:
        get_logger("ours").exception("job.failed")

    (line,) = stream.getvalue().splitlines()
    assert "ZeroDivisionError" in json.loads(line)["exception"]


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_passwords_stay_out(log_format: str) -> None:
    """Neither a key, nor a message, nor a traceback shows the password of a URL."""
    stream = io.StringIO()
    configure(level="info", log_format=log_format, stream=stream)
    get_logger("ours").info("database.away", url="postgresql://ada:hunter2@db/x")
    logging.getLogger("lib").warning("cannot reach %s", "redis://:hunter2@cache:6379/0")
    try:
        raise ConnectionError("redis://:hunter2@cache:6379/0")  # noqa: TRY301 - a library's message
    except ConnectionError:
        get_logger("ours").exception("bell.failed")

    assert "hunter2" not in stream.getvalue()
    assert "ada" in stream.getvalue()


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_keys_stay_out(log_format: str) -> None:
    """What may be shown of a key stays, so that it can be found; its secret and any other bearer's
    token do not.
    """
    key, token = (
        f"hr_0123456789ab_{'Aa-_' * 10}xyz",
        "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl",
    )
    stream = io.StringIO()
    configure(level="info", log_format=log_format, stream=stream)
    get_logger("ours").info(
        "request.odd", headers={"x-api-key": key, "authorization": f"Bearer {token}"}
    )
    logging.getLogger("lib").warning("sent bearer %s and %s", token, key)

    assert token not in stream.getvalue()
    assert "Aa-_Aa-_" not in stream.getvalue()
    assert stream.getvalue().count("hr_0123456789ab_…") == 2


def test_a_console_line_is_for_people() -> None:
    """On a console the event and its keys stand in one line without colour codes when it is no
    terminal.
    """
    stream = io.StringIO()
    configure(level="info", log_format="console", stream=stream)
    get_logger("ours").info("server.ready", port=8000)

    (line,) = stream.getvalue().splitlines()
    assert "server.ready" in line
    assert "port=8000" in line
    assert "\x1b" not in line


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_no_text_moves_a_terminal(log_format: str) -> None:
    """Neither in a library's words, a key's value nor what was raised; no line is forged."""
    hostile = "a\x1b[2J\x9b31m\u202eb\rc"
    stream = io.StringIO()
    configure(level="info", log_format=log_format, stream=stream)
    logging.getLogger("library").warning("%s", f"{hostile}\nforged")
    get_logger("ours").info("request.answered", path=f"{hostile}\nforged")
    get_logger("ours").error("request.failed", exc_info=ValueError(hostile))
    text = stream.getvalue()

    assert not set(text) & set("\x1b\x9b\u202e\r")
    assert not any(line.startswith("forged") for line in text.splitlines())
    assert text.count("a\\") >= 3


def test_the_last_configuration_holds(capsys: pytest.CaptureFixture[str]) -> None:
    """A logger that a module holds follows a later configuration; stderr is the default, stdout
    stays clean.
    """
    log = get_logger("ours")
    configure(level="info", log_format="json", stream=io.StringIO())
    log.info("to.nowhere")
    configure(level="info", log_format="json")
    log.info("to.stderr")

    assert sys.stdout.isatty() is False
    out, err = capsys.readouterr()
    assert out == ""
    assert [json.loads(line)["event"] for line in err.splitlines()] == ["to.stderr"]
