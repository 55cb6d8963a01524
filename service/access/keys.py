"""API keys: 256 random bits behind a prefix that may be shown; what is kept of them is the SHA-256.

A slow hash protects guessable passwords; nobody guesses 256 bits, and a fast one lets every request be checked.
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
OF_ISSUER = "oidc:"
"""What the name of whoever has a token of an issuer begins with, so that nobody can name himself like a key."""
NAME_PATTERN = r"[!-~]([ -~]{0,78}[!-~])?"
_NAME = re.compile(NAME_PATTERN)
_TAKEN = frozenset({LOCAL, ANYBODY, NOBODY, COMMAND_LINE})
_PREFIX_BYTES = 6
_TOKEN = re.compile(r"hr_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")
_NOBODYS_DIGEST = bytes(32)
_DOTS_OF_TOKEN = 2


class Scope(StrEnum):
    """What a key may do: look, plan and reserve, measure, change everything."""

    READ = "read"
    PLAN = "plan"
    MEASURE = "measure"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who asks. ``key_id`` is ``None`` for whoever has no key of ours; ``rate`` and ``quota`` are limits in words.

    ``subject`` is whom a token stands for: the issuer and his name there, which nobody else has.
    """

    name: str
    scopes: frozenset[Scope]
    key_id: str | None = None
    rate: str | None = None
    quota: str | None = None
    subject: str | None = None

    @property
    def counted_as(self) -> str | None:
        """Return under what name his requests are counted: of a key, or of a token's subject."""
        return self.key_id or self.subject

    def may(self, scope: Scope) -> bool:
        """Tell whether this scope is among what was granted."""
        return scope in self.scopes


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A key as it is shown once; ``prefix`` finds it again and ``digest`` is all that is kept of the rest."""

    text: str
    prefix: str
    digest: bytes


def check_name(name: str) -> str:
    """Return the name of a key; raises ValueError for what is none, or could be taken for somebody who has no key."""
    if not _NAME.fullmatch(name):
        message = f"a key cannot be named {name[:80]!r}; use 1 to 80 printable ASCII characters, no space at either end"
        raise ValueError(message)
    if name.lower() in _TAKEN or name.lower().startswith(OF_ISSUER):
        message = f"a key cannot be named {name!r}, which says in the log of changes that somebody had no key; use another name"
        raise ValueError(message)
    return name


def new_token() -> Token:
    """Make a key of 256 random bits."""
    prefix = secrets.token_hex(_PREFIX_BYTES)
    text = f"hr_{prefix}_{secrets.token_urlsafe(SECRET_BYTES)}"
    return Token(text=text, prefix=prefix, digest=digest_of(text))


def prefix_of(text: str) -> str | None:
    """Return the part that finds a key; ``None`` for what cannot be one."""
    found = _TOKEN.fullmatch(text)
    return None if found is None else found[1]


def looks_like_token(text: str) -> bool:
    """Tell a signed token of an issuer (RFC 7519) from a key of ours: it has three parts with dots between them."""
    return text.count(".") == _DOTS_OF_TOKEN


def digest_of(text: str) -> bytes:
    """Return what is stored of a key."""
    return sha256(text.encode()).digest()


def matches(text: str, digest: bytes | None) -> bool:
    """Tell whether a key is the one of this digest, in a time that says nothing about how far off it is."""
    is_same = hmac.compare_digest(digest_of(text), _NOBODYS_DIGEST if digest is None else digest)
    return is_same and digest is not None


def granted(scopes: Iterable[Scope]) -> frozenset[Scope]:
    """Return everything that these scopes allow: whoever may plan or measure may look, and an admin may do all."""
    asked = frozenset(scopes)
    if Scope.ADMIN in asked:
        return frozenset(Scope)
    return asked | {Scope.READ} if asked else asked
