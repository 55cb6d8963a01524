"""Keys in the database, without a server.

Whoever may open the database may make the first key.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from uuid import UUID

from service.access.keys import COMMAND_LINE, Scope
from service.api.resources.keys import render_key
from service.cli.http import Document
from service.db.session import make_engine, make_sessions
from service.runtime.settings import Settings
from service.usecases.access import keys
from service.usecases.access.keys import NewKey, StoredKey
from service.usecases.stored import PageRequest, Sessions


def create(
    name: str, scopes: Sequence[str], *, life: timedelta | None, rate: str | None, quota: str | None
) -> Document:
    """Make a key and return it with its text."""
    new_key = NewKey(
        name=name,
        scopes=frozenset(Scope(scope) for scope in scopes),
        created_by=COMMAND_LINE,
        expires_in=life,
        rate=rate,
        quota=quota,
    )
    with _open_sessions() as sessions:
        stored, text = keys.create(sessions, new_key)
    return {**render_key(stored), "key": text}


def list_all() -> list[Document]:
    """Return all keys, newest first."""
    with _open_sessions() as sessions:
        return [render_key(key) for key in _iter_keys(sessions)]


def revoke(key_id: UUID) -> Document:
    """End a key."""
    with _open_sessions() as sessions:
        return render_key(keys.revoke(sessions, key_id))


def _iter_keys(sessions: Sessions) -> Iterator[StoredKey]:
    request = PageRequest()
    while True:
        page = keys.list_page(sessions, request)
        yield from page.items
        if page.next_cursor is None:
            return
        request = PageRequest(cursor=page.next_cursor)


@contextmanager
def _open_sessions() -> Iterator[Sessions]:
    engine = make_engine(
        Settings.from_env(os.environ).require_database_url(), application_name="headroom-keys"
    )
    try:
        yield make_sessions(engine)
    finally:
        engine.dispose()
