"""The tokens that are let in: the issuer's keys are kept, and asked for anew in time and when one is not known."""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

from service.access.keys import Principal, Scope
from service.access.tokens import KeySet, TokenRules, header_of, principal_of
from service.base.errors import UnavailableError
from service.runtime.logs import logger
from service.runtime.settings import Settings
from service.usecases.access.key_server import Fetch, fetch_keys

REFRESH_S = 300.0
"""How often the keys are read anew: a key that the issuer withdrew is trusted for no longer."""
TRUSTED_FOR_S = 3600.0
"""How long the keys that are known count while the issuer is away."""
COOLDOWN_S = 10.0
"""The least time between two questions to the issuer: unknown key ids cost nothing to make up."""
REMEMBERED_FOR_S = 60.0
"""How long a token that was checked is let in without being checked again; never past its own end."""
_MAX_REMEMBERED = 4096

SCOPES_CLAIM = "scope"
SCOPES = {f"headroom:{scope}": scope for scope in Scope}

_log = logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Clocks: ``monotonic`` for what is waited for, ``wall`` for what tokens say, both in seconds."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time


class TokenBook:
    """Knows whose tokens are let in; ``check`` never waits, ``find`` may wait for the issuer and belongs into a thread."""

    def __init__(self, rules: TokenRules, *, fetch: Fetch, times: Times | None = None) -> None:
        """Start without keys: the first refresh, or the first token, reads them."""
        self._rules = rules
        self._fetch = fetch
        self._times = times or Times()
        self._keys: KeySet | None = None
        self._read_at = self._asked_at = -math.inf
        self._asking = threading.Lock()
        self._remembered: dict[bytes, tuple[Principal, float]] = {}

    def refresh(self) -> None:
        """Read the keys anew where that is due; raises UnavailableError where the issuer is away."""
        now = self._times.monotonic()
        if now - self._read_at >= REFRESH_S and now - self._asked_at >= COOLDOWN_S:
            with self._asking:
                self._ask()

    def check(self, text: str) -> Principal | None:
        """Return who a token stands for, ``None`` where the issuer must be asked first; raises UnauthorizedError."""
        keys = self._trusted_keys()
        if keys is None:
            return None
        name = sha256(text.encode()).digest()
        principal, until = self._remembered.get(name, (None, 0.0))
        if principal is not None and self._times.wall() < until:
            return principal
        if keys.find(header_of(text).key_id) is None:
            return None
        principal, until = principal_of(text, keys, self._rules)
        if len(self._remembered) >= _MAX_REMEMBERED:
            self._remembered = {}
        self._remembered[name] = principal, min(until, self._times.wall() + REMEMBERED_FOR_S)
        return principal

    def find(self, text: str) -> Principal:
        """Return who a token stands for; raises UnauthorizedError with the reason, UnavailableError while no keys are known."""
        found = self.check(text)
        return principal_of(text, self._newer_than(self._trusted_keys()), self._rules)[0] if found is None else found

    def _newer_than(self, known: KeySet | None) -> KeySet:
        """Return keys that were read after ``known``, by one question for all who wait, or the same where it is too early."""
        with self._asking:
            if self._trusted_keys() is known and self._times.monotonic() - self._asked_at >= COOLDOWN_S:
                try:
                    self._ask()
                except UnavailableError as error:
                    _log.warning("tokens.issuer_away", error=error.detail)
        keys = self._trusted_keys()
        if keys is None:
            message = "tokens cannot be checked while their issuer is away; try again, or send a key of this server"
            raise UnavailableError(message)
        return keys

    def _ask(self) -> None:
        self._asked_at = self._times.monotonic()
        keys = self._fetch()
        # What was checked by other keys has to be checked again.
        self._keys, self._remembered = keys, {}
        self._read_at = self._times.monotonic()

    def _trusted_keys(self) -> KeySet | None:
        return self._keys if self._is_trusted() else None

    def _is_trusted(self) -> bool:
        return self._times.monotonic() - self._read_at <= TRUSTED_FOR_S


def make_tokens(settings: Settings, *, issuer: str, audience: str) -> TokenBook:
    """Return what knows the tokens of the issuer that is set."""
    rules = TokenRules(
        issuer=issuer,
        audience=audience,
        scopes_claim=settings.oidc_scopes_claim or SCOPES_CLAIM,
        scopes=settings.oidc_scopes or SCOPES,
        rate=settings.oidc_rate,
        quota=settings.oidc_quota,
    )
    return TokenBook(rules, fetch=partial(fetch_keys, issuer))
