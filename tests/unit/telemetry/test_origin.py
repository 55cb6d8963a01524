"""What work is for: read from headers and environments, and on every line of the log."""

import contextvars
from collections.abc import Callable

import pytest

from service.telemetry.origin import (
    NO_ORIGIN,
    Origin,
    get_current_ids,
    get_current_origin,
    read_traceparent,
    set_origin,
    set_origin_from_environ,
    to_environ,
)

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{SPAN}-01"


def alone(work: Callable[[], object]) -> object:
    """Do something in a context that nobody else has."""
    return contextvars.Context().run(work)


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (GOOD, GOOD),
        (f" {GOOD} ", GOOD),
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-adds", GOOD),
        (f"cc-{TRACE}-{SPAN}-01.what", None),
        (f"00-{TRACE}-{SPAN}-01-more", None),
        (f"ff-{TRACE}-{SPAN}-01", None),
        (f"00-{'0' * 32}-{SPAN}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (GOOD.upper(), None),
        ("", None),
    ],
)
def test_a_traceparent_is_one_or_it_is_not(sent: str, read: str | None) -> None:
    """W3C Trace Context, sec. 3.2.2: other versions are read as far as they are known, what is
    malformed counts as absent.
    """
    assert read_traceparent(sent) == read


def test_a_process_that_is_started_works_for_the_same() -> None:
    """What one process tells another in its environment is what that one has on every line."""
    environ = to_environ(Origin(request_id="r1", traceparent=GOOD), job_id="j1", attempt=2)

    def read() -> tuple[Origin, Origin, dict[str, object]]:
        return set_origin_from_environ(environ), get_current_origin(), get_current_ids()

    ids = {"job_id": "j1", "attempt": 2, "request_id": "r1", "trace_id": TRACE}
    origin = Origin(request_id="r1", traceparent=GOOD)
    assert alone(read) == (origin, origin, ids)


def test_without_ids_there_are_none() -> None:
    """A probe that somebody starts by hand belongs to no request; one request's ids do not reach
    another's task.
    """

    def elsewhere() -> tuple[Origin, dict[str, object]]:
        set_origin(Origin(request_id="r1"))
        return contextvars.Context().run(
            lambda: (set_origin_from_environ({"TRACEPARENT": "nonsense"}), get_current_ids())
        )

    assert alone(elsewhere) == (NO_ORIGIN, {})
    assert alone(get_current_origin) == NO_ORIGIN
