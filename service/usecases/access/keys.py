"""Keys: made, listed and revoked in the database, and known in the process, so that no request waits for a look-up."""

import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from uuid import UUID

from service.access.keys import Principal, Scope, check_name, granted, matches, new_token, prefix_of
from service.base.errors import InvalidRequestError, NotFoundError, ServiceError, UnauthorizedError, UnavailableError
from service.db.queries import keys as queries
from service.db.records.keys import AuditEvent, NewKey, StoredAuditEvent, StoredKey
from service.db.session import transaction
from service.runtime.logs import logger
from service.usecases.stored import Page, PageRequest, Sessions

TRUSTED_FOR_S = 60.0
"""How long a process goes on with the keys it knows while the database is away: no revocation takes longer than this."""
NOTED_EVERY_S = 60.0
"""How often the use of one key is written down."""

_REFUSAL = "a valid key is needed: send it as `Authorization: Bearer hr_…`; an admin makes one with `headroom keys create`"

ReadKeys = Callable[[], Mapping[str, tuple[StoredKey, bytes]]]
NoteUse = Callable[[frozenset[UUID]], None]

_log = logger(__name__)


def create(sessions: Sessions, new: NewKey) -> tuple[StoredKey, str]:
    """Make a key and return it with its text, which is never to be had again; raises InvalidRequestError for its name."""
    try:
        check_name(new.name)
    except ValueError as error:
        raise InvalidRequestError(str(error), errors=[{"field": "name", "message": str(error)}]) from None
    token = new_token()
    with transaction(sessions) as session:
        return queries.insert_key(session, new, token), token.text


def list_page(sessions: Sessions, request: PageRequest) -> Page[StoredKey]:
    """Return a page of keys, newest first."""
    with transaction(sessions) as session:
        return queries.page_of_keys(session, request)


def revoke(sessions: Sessions, key_id: UUID) -> StoredKey:
    """End a key."""
    with transaction(sessions) as session:
        found = queries.revoke(session, key_id)
    if found is None:
        message = f"there is no key {key_id}"
        raise NotFoundError(message)
    return found


def is_any_usable(sessions: Sessions) -> bool:
    """Tell whether any key would be let in."""
    with transaction(sessions) as session:
        return queries.has_live_key(session)


def read_live(sessions: Sessions) -> Mapping[str, tuple[StoredKey, bytes]]:
    """Return all keys that are let in, by prefix."""
    with transaction(sessions) as session:
        return queries.live_keys(session)


def note_use(sessions: Sessions, key_ids: frozenset[UUID]) -> None:
    """Write down that keys were used."""
    with transaction(sessions) as session:
        queries.mark_used(session, key_ids)


def write_down(sessions: Sessions, event: AuditEvent) -> None:
    """Keep who changed what; where the database is away or refuses it, the process's own log keeps it."""
    try:
        with transaction(sessions) as session:
            queries.insert_event(session, event)
    except ServiceError as error:
        facts = {name: str(getattr(event, name)) for name in AuditEvent.__dataclass_fields__}
        _log.error("audit.not_stored", reason=error.detail, **facts)


def page_of_changes(sessions: Sessions, request: PageRequest) -> Page[StoredAuditEvent]:
    """Return a page of changes, newest first."""
    with transaction(sessions) as session:
        return queries.page_of_events(session, request)


class KeyBook:
    """The keys that are let in, by prefix; read anew at every refresh, and trusted for ``TRUSTED_FOR_S`` without one."""

    def __init__(self, *, read_keys: ReadKeys, note_use: NoteUse, clock: Callable[[], float] = time.monotonic) -> None:
        """Start empty: nobody is let in before the first refresh."""
        self._read_keys = read_keys
        self._note_use = note_use
        self._clock = clock
        self._keys: Mapping[str, tuple[StoredKey, bytes]] = {}
        self._read_at: float | None = None
        self._used: set[UUID] = set()
        self._noted: dict[UUID, float] = {}
        self._lock = threading.Lock()

    def refresh(self) -> None:
        """Read all keys, and write down which were used."""
        began = self._clock()
        self._keys = self._read_keys()
        self._read_at = began
        with self._lock:
            due = frozenset(key for key in self._used if began - self._noted.get(key, -NOTED_EVERY_S) >= NOTED_EVERY_S)
            self._used -= due
        if due:
            self._note_use(due)
            self._noted |= dict.fromkeys(due, began)

    def find(self, text: str) -> Principal:
        """Return who a key stands for; every other text is refused in the same words and the same time."""
        self._check_age()
        prefix = prefix_of(text)
        stored, digest = self._keys.get(prefix or "", (None, None))
        if not matches(text, digest) or stored is None or _is_over(stored):
            raise UnauthorizedError(_REFUSAL)
        with self._lock:
            self._used.add(stored.id)
        return principal_of(stored)

    def _check_age(self) -> None:
        if self._read_at is None or self._clock() - self._read_at > TRUSTED_FOR_S:
            message = "keys cannot be checked while the database is away; try again"
            raise UnavailableError(message)


def principal_of(stored: StoredKey) -> Principal:
    """Return who asks with this key."""
    return Principal(
        name=stored.name, key_id=str(stored.id), scopes=granted(stored.scopes), rate=stored.rate, quota=stored.quota
    )


def missing_key() -> UnauthorizedError:
    """Return the refusal of a request without a key: the same as of one with a wrong key."""
    return UnauthorizedError(_REFUSAL)


def _is_over(stored: StoredKey) -> bool:
    return stored.expires_at is not None and stored.expires_at <= datetime.now(UTC)


__all__ = [
    "AuditEvent",
    "KeyBook",
    "NewKey",
    "Scope",
    "StoredAuditEvent",
    "StoredKey",
    "create",
    "is_any_usable",
    "list_page",
    "missing_key",
    "note_use",
    "page_of_changes",
    "principal_of",
    "read_live",
    "revoke",
    "write_down",
]
