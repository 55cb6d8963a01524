"""API keys in the database, and their in-process cache.

No request waits for a look-up.
"""

import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from uuid import UUID

from service.access.keys import (
    Principal,
    Scope,
    check_name,
    create_token,
    expand_scopes,
    parse_prefix,
    verify_key,
)
from service.base.errors import (
    InvalidRequestError,
    NotFoundError,
    ServiceError,
    UnauthorizedError,
    UnavailableError,
)
from service.db.changes import Change, follow_change
from service.db.queries import keys as queries
from service.db.records.keys import AuditEvent, NewKey, StoredAuditEvent, StoredKey
from service.db.session import transaction
from service.runtime.logs import get_logger
from service.usecases.stored import Page, PageRequest, Sessions

TRUSTED_FOR_S = 60.0
"""How long a process trusts its cached keys while the database is away: no revocation takes longer
than this.
"""
RECORD_USE_INTERVAL_S = 60.0
"""Interval at which the use of one key is stored."""

_REFUSAL = (
    "a valid key is needed: send it as `Authorization: Bearer hr_…`; an admin makes one with "
    "`headroom keys create`"
)

ReadKeys = Callable[[], Mapping[str, tuple[StoredKey, bytes]]]
RecordUse = Callable[[frozenset[UUID]], None]

_log = get_logger(__name__)


def create(sessions: Sessions, new: NewKey) -> tuple[StoredKey, str]:
    """Create a key and return it with its text.

    The text is never to be had again. Raises InvalidRequestError for its name.
    """
    try:
        check_name(new.name)
    except ValueError as error:
        raise InvalidRequestError(
            str(error), errors=[{"field": "name", "message": str(error)}]
        ) from None
    token = create_token()
    with transaction(sessions) as session:
        return queries.insert_key(session, new, token), token.text


def list_page(sessions: Sessions, request: PageRequest) -> Page[StoredKey]:
    """Return a page of keys, newest first."""
    with transaction(sessions) as session:
        return queries.list_keys(session, request)


def revoke(sessions: Sessions, key_id: UUID) -> StoredKey:
    """End a key."""
    with transaction(sessions) as session:
        stored = queries.revoke(session, key_id)
    if stored is None:
        message = f"there is no key {key_id}"
        raise NotFoundError(message)
    return stored


def is_any_usable(sessions: Sessions) -> bool:
    """Return whether any key would be let in."""
    with transaction(sessions) as session:
        return queries.has_live_key(session)


def read_live_keys(sessions: Sessions) -> Mapping[str, tuple[StoredKey, bytes]]:
    """Return all live keys with their digests, by prefix."""
    with transaction(sessions) as session:
        return queries.list_live_keys(session)


def record_use(sessions: Sessions, key_ids: frozenset[UUID]) -> None:
    """Store that keys were used."""
    with transaction(sessions) as session:
        queries.mark_used(session, key_ids)


def record_change(sessions: Sessions, event: AuditEvent) -> None:
    """Store an audit event, or the status of one that is stored.

    Where the database is away or refuses it, the process's own log keeps it.
    """
    try:
        with transaction(sessions) as session:
            queries.insert_event(session, event)
    except ServiceError as error:
        facts = {name: str(getattr(event, name)) for name in AuditEvent.__dataclass_fields__}
        _log.error("audit.not_stored", reason=error.detail, **facts)


def list_changes(sessions: Sessions, request: PageRequest) -> Page[StoredAuditEvent]:
    """Return a page of changes, newest first."""
    with transaction(sessions) as session:
        return queries.list_audit_events(session, request)


class KeyCache:
    """In-process cache of live keys, by prefix.

    It is read anew at every refresh, and trusted for ``TRUSTED_FOR_S`` without one.
    """

    def __init__(
        self,
        *,
        read_keys: ReadKeys,
        record_use: RecordUse,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start empty: nobody is let in before the first refresh."""
        self._read_keys = read_keys
        self._record_use = record_use
        self._clock = clock
        self._keys: Mapping[str, tuple[StoredKey, bytes]] = {}
        self._read_at: float | None = None
        self._used: set[UUID] = set()
        self._recorded_at: dict[UUID, float] = {}
        self._lock = threading.Lock()

    def refresh(self) -> None:
        """Read all keys, and store which were used."""
        began = self._clock()
        self._keys = self._read_keys()
        self._read_at = began
        with self._lock:
            due = frozenset(
                key
                for key in self._used
                if began - self._recorded_at.get(key, -RECORD_USE_INTERVAL_S)
                >= RECORD_USE_INTERVAL_S
            )
            self._used -= due
        if due:
            self._record_use(due)
            self._recorded_at |= dict.fromkeys(due, began)

    def find(self, text: str) -> Principal:
        """Return the principal of a key.

        Every other text is refused in the same words and the same time.
        """
        self._check_age()
        prefix = parse_prefix(text)
        stored, digest = self._keys.get(prefix or "", (None, None))
        if not verify_key(text, digest) or stored is None or _is_expired(stored):
            raise UnauthorizedError(_REFUSAL)
        with self._lock:
            self._used.add(stored.id)
        return make_principal(stored)

    def _check_age(self) -> None:
        if self._read_at is None or self._clock() - self._read_at > TRUSTED_FOR_S:
            message = "keys cannot be checked while the database is away; try again"
            raise UnavailableError(message)


def make_principal(stored: StoredKey) -> Principal:
    """Return the principal of a stored key."""
    return Principal(
        name=stored.name,
        key_id=str(stored.id),
        scopes=expand_scopes(stored.scopes),
        rate=stored.rate,
        quota=stored.quota,
    )


def make_missing_key_error() -> UnauthorizedError:
    """Return the refusal of a request without a key.

    It is the same as of one with a wrong key.
    """
    return UnauthorizedError(_REFUSAL)


def _is_expired(stored: StoredKey) -> bool:
    return stored.expires_at is not None and stored.expires_at <= datetime.now(UTC)


__all__ = [
    "AuditEvent",
    "Change",
    "KeyCache",
    "NewKey",
    "Scope",
    "StoredAuditEvent",
    "StoredKey",
    "create",
    "follow_change",
    "is_any_usable",
    "list_changes",
    "list_page",
    "make_missing_key_error",
    "make_principal",
    "read_live_keys",
    "record_change",
    "record_use",
    "revoke",
]
