"""API keys: 256 random bits behind a public prefix.

Only the SHA-256 of a key is stored. A slow hash protects guessable passwords; nobody guesses 256
bits, and a fast one lets every request be checked.
"""

import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

SECRET_BYTES = 32
LOCAL, ANYBODY, NOBODY, COMMAND_LINE = "local", "anybody", "nobody", "command line"
"""What those are called who ask without a key, and who made the first one."""
ISSUER_PREFIX = "oidc:"
"""Prefix of the names of token holders, so that none of them can name himself like a key."""
NAME_PATTERN = r"[!-~]([ -~]{0,78}[!-~])?"
_NAME = re.compile(NAME_PATTERN)
_RESERVED_NAMES = frozenset({LOCAL, ANYBODY, NOBODY, COMMAND_LINE})
_PREFIX_BYTES = 6
_TOKEN = re.compile(r"hr_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")
_DUMMY_DIGEST = bytes(32)
_NUM_JWT_DOTS = 2


class Scope(StrEnum):
    """Permissions of a key.

    Look, plan and reserve, measure, hand in what jobs used, change everything.
    """

    READ = "read"
    PLAN = "plan"
    MEASURE = "measure"
    FIELD = "field"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated caller with scopes and limits.

    ``key_id`` is ``None`` for a caller without an API key; ``rate`` and ``quota`` are limits in
    text form. ``subject`` is whom a token stands for: the issuer and the subject's name there,
    which nobody else has.
    """

    name: str
    scopes: frozenset[Scope]
    key_id: str | None = None
    rate: str | None = None
    quota: str | None = None
    subject: str | None = None

    @property
    def usage_key(self) -> str | None:
        """Key id or token subject under which requests are counted."""
        return self.key_id or self.subject

    def has_scope(self, scope: Scope) -> bool:
        """Return whether this scope was granted."""
        return scope in self.scopes


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A key in plain text, shown only once.

    ``prefix`` finds it again, and ``digest`` is all that is stored of the rest.
    """

    text: str
    prefix: str
    digest: bytes


def check_name(name: str) -> str:
    """Return the name of a key after validation.

    Raises ValueError for an invalid name, and for one that could be taken for somebody who has no
    key.
    """
    if not _NAME.fullmatch(name):
        message = (
            f"a key cannot be named {name[:80]!r}; use 1 to 80 printable ASCII characters, no "
            "space at either end"
        )
        raise ValueError(message)
    if name.lower() in _RESERVED_NAMES or name.lower().startswith(ISSUER_PREFIX):
        message = (
            f"a key cannot be named {name!r}, which says in the log of changes that somebody had "
            "no key; use another name"
        )
        raise ValueError(message)
    return name


def create_token() -> Token:
    """Create a key of 256 random bits."""
    prefix = secrets.token_hex(_PREFIX_BYTES)
    text = f"hr_{prefix}_{secrets.token_urlsafe(SECRET_BYTES)}"
    return Token(text=text, prefix=prefix, digest=compute_digest(text))


def parse_prefix(text: str) -> str | None:
    """Return the lookup prefix of a key, or ``None`` if malformed."""
    match = _TOKEN.fullmatch(text)
    return None if match is None else match[1]


def is_jwt(text: str) -> bool:
    """Return whether a credential is a signed token (RFC 7519).

    A token of an issuer has three parts with dots between them; an API key has no dot.
    """
    return text.count(".") == _NUM_JWT_DOTS


def compute_digest(text: str) -> bytes:
    """Return the stored digest of a key."""
    return sha256(text.encode()).digest()


def verify_key(text: str, digest: bytes | None) -> bool:
    """Return whether a key has this digest, in constant time.

    The time says nothing about how far off a wrong key is.
    """
    is_same = hmac.compare_digest(compute_digest(text), _DUMMY_DIGEST if digest is None else digest)
    return is_same and digest is not None


def expand_scopes(scopes: Iterable[Scope]) -> frozenset[Scope]:
    """Return the scopes granted and all that they imply.

    Whoever may plan or measure may read, and an admin may do everything.
    """
    requested = frozenset(scopes)
    if Scope.ADMIN in requested:
        return frozenset(Scope)
    return requested | {Scope.READ} if requested else requested
