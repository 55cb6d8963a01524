"""Keys in the database, without a server.

Whoever may open the database may make the first key.
"""

import os
import pwd
import secrets
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
from service.usecases.access.keys import AuditEvent, Change, NewKey, StoredKey, follow_change
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
    with _open_sessions() as sessions, _write_down("createKey", "POST", "/v1/keys", 201):
        stored, text = keys.create(sessions, new_key)
    return {**render_key(stored), "key": text}


def list_all() -> list[Document]:
    """Return all keys, newest first."""
    with _open_sessions() as sessions:
        return [render_key(key) for key in _iter_keys(sessions)]


def revoke(key_id: UUID) -> Document:
    """End a key."""
    path = f"/v1/keys/{key_id}"
    with _open_sessions() as sessions, _write_down("revokeKey", "DELETE", path, 200):
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
def _write_down(operation: str, method: str, path: str, status: int) -> Iterator[None]:
    """Write down what the block changes.

    It reads as the request that would have changed it. Who asked is the account of the operating
    system.
    """
    event = AuditEvent(
        principal=f"{COMMAND_LINE}: {_get_account_name()}",
        key_id=None,
        operation=operation,
        method=method,
        path=path,
        status=status,
        request_id=secrets.token_hex(16),
        peer=None,
    )
    with follow_change(Change(row_id=event.id, event=event)):
        yield


def _get_account_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


@contextmanager
def _open_sessions() -> Iterator[Sessions]:
    engine = make_engine(
        Settings.from_env(os.environ).require_database_url(), application_name="headroom-keys"
    )
    try:
        yield make_sessions(engine)
    finally:
        engine.dispose()
