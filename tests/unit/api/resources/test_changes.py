"""The log of changes: who is in it, and what of a path is kept."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from litestar.testing import TestClient
from structlog.testing import capture_logs

from service.access.keys import Principal, Scope
from service.api.http.auth import Access, Guard
from service.base.errors import UnstorableTextError
from service.usecases.access import keys
from service.usecases.access.keys import AuditEvent, make_missing_key_error
from tests.unit.api.builders import parts, served

READER = Principal(name="reader", scopes=frozenset({Scope.READ}))


def find(text: str) -> Principal:
    """Know one key."""
    if text != "known":
        raise make_missing_key_error()
    return READER


class Log:
    """A server that lets one key in, and what is kept of the changes that it is asked for."""

    def __init__(self, client: TestClient[Any], kept: list[AuditEvent]) -> None:
        """Ask through ``client``; the server writes into ``kept``."""
        self._client = client
        self._kept = kept

    def of(self, path: str, key: str) -> list[AuditEvent]:
        """Ask for a change that this key may not make, and return what is kept of it."""
        self._kept.clear()
        assert self._client.delete(path, headers={"x-api-key": key}).status_code in {401, 403}
        return self._kept


@pytest.fixture(scope="module", name="log")
def start() -> Iterator[Log]:
    """Serve over fakes for the tests of this file."""
    kept: list[AuditEvent] = []
    with served(
        replace(parts(), guard=Guard(Access.KEYS, find=find), record_change=kept.append)
    ) as client:
        yield Log(client, kept)


def test_a_refused_change_names_whose_key_it_was(log: Log) -> None:
    """Who may not do a thing is in the log with what he tried."""
    (event,) = log.of("/v1/models/mine", "known")

    assert (event.principal, event.operation, event.path, event.status) == (
        "reader",
        "deleteModel",
        "/v1/models/mine",
        403,
    )


def test_strangers_do_not_fill_the_database(log: Log) -> None:
    """What is asked for without a valid key is a bounded line of the process's own log, and no
    row.
    """
    with capture_logs() as lines:
        assert log.of("/v1/models/" + "a" * 50_000, "unknown") == []

    (line,) = [line for line in lines if line["event"] == "change.not_let_in"]
    assert (line["operation"], line["status"], len(line["path"])) == ("deleteModel", 401, 512)


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/v1/models/a%00b", "/v1/models/a\\x00b"),
        ("/v1/models/a%0Ab", "/v1/models/a\\nb"),
        ("/v1/models/%C3%A9", "/v1/models/é"),
        ("/v1/models/" + "a" * 501, "/v1/models/" + "a" * 501),
        ("/v1/models/" + "a" * 502, "/v1/models/" + "a" * 500 + "…"),
        ("/v1/models/" + "%00" * 400, "/v1/models/" + "\\x00" * 125 + "…"),
    ],
)
def test_a_path_is_kept_as_it_can_be_stored(log: Log, path: str, kept: str) -> None:
    """No character that no text may hold, no line of its own, and no more than 512 characters."""
    assert [event.path for event in log.of(path, "known")] == [kept]


class Refusing:
    """As much of a factory of sessions as is asked, over a database that stores nothing."""

    @contextmanager
    def begin(self) -> Iterator[None]:
        """Refuse what is stored in it."""
        message = "the text cannot be stored"
        raise UnstorableTextError(message)
        yield


def test_what_the_database_refuses_is_in_the_log_of_the_process() -> None:
    """A change that cannot be stored is told, and nothing is raised after the answer."""
    event = AuditEvent(
        principal="p",
        key_id=None,
        operation="o",
        method="PUT",
        path="/",
        status=204,
        request_id="r",
        peer=None,
    )
    with capture_logs() as lines:
        keys.record_change(Refusing(), event)  # type: ignore[arg-type]  # as much of it as is asked

    assert [(line["event"], line["reason"]) for line in lines] == [
        ("audit.not_stored", "the text cannot be stored")
    ]
