"""Cache of an OIDC issuer's signing keys and verified tokens.

The keys are fetched anew in time, and when a token's key is not known.
"""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

from service.access.keys import Principal, Scope
from service.access.tokens import KeySet, TokenRules, authenticate_token, read_header
from service.base.errors import UnavailableError
from service.runtime.logs import get_logger
from service.runtime.settings import Settings
from service.usecases.access.key_server import Fetch, fetch_keys

REFRESH_S = 300.0
"""Interval at which the keys are read anew: a key that the issuer withdrew is trusted for no
longer.
"""
TRUSTED_FOR_S = 3600.0
"""How long known keys are trusted while the issuer is away."""
COOLDOWN_S = 10.0
"""Minimum time between two requests to the issuer: unknown key ids cost nothing to make up."""
PATIENCE_S = 5.0
"""How long a question to the issuer is waited for. Two documents take at most twice ``DEADLINE_S``
as a rule; a resolver that hangs, or headers that come byte by byte, take longer.
"""
VERIFIED_FOR_S = 60.0
"""How long a verified token is accepted without another check; never past its own end."""
_MAX_VERIFIED = 4096

SCOPES_CLAIM = "scope"
SCOPES = {f"headroom:{scope}": scope for scope in Scope}

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Monotonic clock for waits and wall clock for tokens.

    Both are in seconds.
    """

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time


class TokenCache:
    """Verifier of the issuer's tokens.

    ``check`` never waits; ``find`` may wait for the issuer and belongs into a thread.
    """

    def __init__(self, rules: TokenRules, *, fetch: Fetch, times: Times | None = None) -> None:
        """Start without keys: the first refresh or token reads them."""
        self._rules = rules
        self._fetch = fetch
        self._times = times or Times()
        self._keys: KeySet | None = None
        self._read_at = self._attempted_at = -math.inf
        self._fetch_lock = threading.Lock()
        self._verified: dict[bytes, tuple[Principal, float]] = {}

    def refresh(self) -> None:
        """Read the keys anew where that is due.

        Raises UnavailableError where the issuer is away.
        """
        now = self._times.monotonic()
        if now - self._read_at >= REFRESH_S and now - self._attempted_at >= COOLDOWN_S:
            with self._fetch_lock:
                self._load_keys()

    def check(self, text: str) -> Principal | None:
        """Return the principal of a token from cached keys.

        ``None`` where the issuer must be asked first. Raises UnauthorizedError.
        """
        keys = self._trusted_keys()
        if keys is None:
            return None
        name = sha256(text.encode()).digest()
        principal, until = self._verified.get(name, (None, 0.0))
        if principal is not None and self._times.wall() < until:
            return principal
        if keys.find(read_header(text).key_id) is None:
            return None
        principal, until = authenticate_token(text, keys, self._rules)
        if len(self._verified) >= _MAX_VERIFIED:
            self._verified = {}
        self._verified[name] = principal, min(until, self._times.wall() + VERIFIED_FOR_S)
        return principal

    def find(self, text: str) -> Principal:
        """Return the principal of a token.

        Raises UnauthorizedError with the reason, UnavailableError while no keys are known.
        """
        principal = self.check(text)
        return (
            authenticate_token(text, self._fetch_newer_keys(self._trusted_keys()), self._rules)[0]
            if principal is None
            else principal
        )

    def _fetch_newer_keys(self, previous: KeySet | None) -> KeySet:
        """Return keys read after ``previous``.

        They are fetched once for all who wait. Where it is too early, or takes too long, the same
        keys are returned.
        """
        asked_s = self._times.monotonic() - self._attempted_at
        if self._fetch_lock.acquire(timeout=max(0.0, PATIENCE_S - asked_s)):
            try:
                self._load_newer_keys(previous)
            finally:
                self._fetch_lock.release()
        keys = self._trusted_keys()
        if keys is None:
            message = (
                "tokens cannot be checked while their issuer is away; try again, or send a key of "
                "this server"
            )
            raise UnavailableError(message)
        return keys

    def _load_newer_keys(self, previous: KeySet | None) -> None:
        since_s = self._times.monotonic() - self._attempted_at
        if self._trusted_keys() is previous and since_s >= COOLDOWN_S:
            try:
                self._load_keys()
            except UnavailableError as error:
                _log.warning("tokens.issuer_away", error=error.detail)

    def _load_keys(self) -> None:
        self._attempted_at = self._times.monotonic()
        try:
            keys = self._fetch()
        finally:
            # One that took long is not asked again at once by each who waited.
            self._attempted_at = self._times.monotonic()
        # What was checked by other keys has to be checked again.
        self._keys, self._verified = keys, {}
        self._read_at = self._times.monotonic()

    def _trusted_keys(self) -> KeySet | None:
        return self._keys if self._is_trusted() else None

    def _is_trusted(self) -> bool:
        return self._times.monotonic() - self._read_at <= TRUSTED_FOR_S


def make_token_cache(settings: Settings, *, issuer: str, audience: str) -> TokenCache:
    """Return the token cache of the configured issuer."""
    rules = TokenRules(
        issuer=issuer,
        audience=audience,
        scopes_claim=settings.oidc_scopes_claim or SCOPES_CLAIM,
        scopes=settings.oidc_scopes or SCOPES,
        rate=settings.oidc_rate,
        quota=settings.oidc_quota,
    )
    return TokenCache(rules, fetch=partial(fetch_keys, issuer))
