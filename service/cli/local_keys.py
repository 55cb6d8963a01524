"""Keys without a server: whoever may open the database may make the first key."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from uuid import UUID

from service.access.keys import COMMAND_LINE, Scope
from service.api.resources.keys import members_of
from service.cli.http import Document
from service.db.session import make_engine, make_sessions
from service.runtime.settings import Settings
from service.usecases.access import keys
from service.usecases.access.keys import NewKey, StoredKey
from service.usecases.stored import PageRequest, Sessions


def create(name: str, scopes: Sequence[str], *, life: timedelta | None, rate: str | None, quota: str | None) -> Document:
    """Make a key and return it with its text."""
    wanted = NewKey(
        name=name,
        scopes=frozenset(Scope(scope) for scope in scopes),
        created_by=COMMAND_LINE,
        expires_in=life,
        rate=rate,
        quota=quota,
    )
    with _sessions() as sessions:
        stored, text = keys.create(sessions, wanted)
    return {**members_of(stored), "key": text}


def list_all() -> list[Document]:
    """Return all keys, newest first."""
    with _sessions() as sessions:
        return [members_of(key) for key in _pages(sessions)]


def revoke(key_id: UUID) -> Document:
    """End a key."""
    with _sessions() as sessions:
        return members_of(keys.revoke(sessions, key_id))


def _pages(sessions: Sessions) -> Iterator[StoredKey]:
    request = PageRequest()
    while True:
        page = keys.list_page(sessions, request)
        yield from page.items
        if page.next_cursor is None:
            return
        request = PageRequest(cursor=page.next_cursor)


@contextmanager
def _sessions() -> Iterator[Sessions]:
    engine = make_engine(Settings.from_env(os.environ).require_database_url(), application_name="headroom-keys")
    try:
        yield make_sessions(engine)
    finally:
        engine.dispose()
