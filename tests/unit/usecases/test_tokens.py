"""The issuer is asked when it must be, and no more often."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from service.access.keys import Scope
from service.access.tokens import KeySet, TokenRules, read_keys
from service.base.errors import UnauthorizedError, UnavailableError
from service.usecases.access.tokens import (
    COOLDOWN_S,
    PATIENCE_S,
    REFRESH_S,
    TRUSTED_FOR_S,
    VERIFIED_FOR_S,
    Times,
    TokenCache,
)
from tests.issuers import AUDIENCE, Issuer, jwk

ISSUER = Issuer(url="https://issuer.test")
RULES = TokenRules(
    issuer=ISSUER.url, audience=AUDIENCE, scopes_claim="scope", scopes={"headroom:read": Scope.READ}
)


@dataclass(slots=True)
class Away:
    """An issuer that may be away, and a clock that a test moves."""

    is_away: bool = False
    now_s: float = 1000.0
    wall_s: float = 0.0
    keys: list[dict[str, object]] = field(default_factory=lambda: [jwk("rsa-1")])
    num_asked: int = 0

    def fetch(self) -> KeySet:
        """Answer with the keys of now."""
        self.num_asked += 1
        if self.is_away:
            message = "nobody there"
            raise UnavailableError(message)
        return read_keys({"keys": self.keys})

    def book(self) -> TokenCache:
        """Return a book over this issuer."""
        return TokenCache(
            RULES,
            fetch=self.fetch,
            times=Times(monotonic=lambda: self.now_s, wall=lambda: self.wall_s),
        )


def test_the_first_token_asks_the_issuer_and_the_next_does_not() -> None:
    """Before that a check says that it cannot know."""
    issuer = Away()
    book = issuer.book()

    assert book.check(ISSUER.token()) is None
    assert book.find(ISSUER.token()).name == "oidc:u-1"
    assert book.check(ISSUER.token(sub="u-2")) is not None
    assert issuer.num_asked == 1


def test_a_rotated_key_is_found_and_one_that_nobody_has_is_not_asked_for_twice() -> None:
    """A new key id is worth a question, but no more than one in ten seconds."""
    issuer = Away()
    book = issuer.book()
    book.refresh()
    issuer.keys = [jwk("ec-1")]
    issuer.now_s += COOLDOWN_S

    assert book.find(ISSUER.token("ec-1")).name == "oidc:u-1"
    for _ in range(3):
        with pytest.raises(UnauthorizedError, match="no key of its 'kid'"):
            book.find(ISSUER.token("rsa-2"))
    with pytest.raises(UnauthorizedError):
        book.find(ISSUER.token("rsa-1"))
    assert issuer.num_asked == 2


def test_known_keys_outlive_an_issuer_that_is_away_for_an_hour() -> None:
    """After that nobody knows which keys were withdrawn."""
    issuer = Away()
    book = issuer.book()
    book.refresh()
    issuer.is_away = True
    issuer.now_s += TRUSTED_FOR_S

    assert book.check(ISSUER.token()) is not None
    with pytest.raises(UnavailableError):
        book.refresh()
    issuer.now_s += 1
    assert book.check(ISSUER.token()) is None
    with pytest.raises(UnavailableError, match="while their issuer is away"):
        book.find(ISSUER.token())


def test_keys_are_read_anew_in_time() -> None:
    """A key that the issuer withdrew is refused after the next reading, for tokens that were let in
    a moment ago as well.
    """
    issuer = Away()
    book = issuer.book()
    book.refresh()
    token = ISSUER.token()
    assert book.check(token) is not None
    issuer.keys = [jwk("ec-1")]
    issuer.now_s += REFRESH_S - 1
    book.refresh()
    assert issuer.num_asked == 1
    issuer.now_s += 1
    book.refresh()

    assert issuer.num_asked == 2
    with pytest.raises(UnauthorizedError):
        book.find(token)


def test_a_token_is_remembered_for_a_minute_and_never_past_its_end() -> None:
    """What was checked once is let in again without the work, until it may have ended."""
    issuer = Away(wall_s=0.0)
    book = issuer.book()
    book.refresh()
    token = ISSUER.token()

    first = book.check(token)
    assert book.check(token) is first
    issuer.wall_s = VERIFIED_FOR_S
    again = book.check(token)
    assert again == first
    assert again is not first


def test_an_issuer_that_was_never_there_is_unavailable_and_not_unauthorized() -> None:
    """The token may well be right."""
    issuer = Away(is_away=True)

    with pytest.raises(UnavailableError, match="send a key of this server"):
        issuer.book().find(ISSUER.token())


def test_a_storm_of_unknown_keys_asks_once_and_waits_once() -> None:
    """While the issuer hangs, a question is on its way for all; who comes late does not wait."""
    asked, release = threading.Event(), threading.Event()
    issuer = Away()

    def hang() -> KeySet:
        asked.set()
        assert release.wait(30)
        issuer.now_s += 60.0
        return issuer.fetch()

    slow = TokenCache(RULES, fetch=hang, times=Times(monotonic=lambda: issuer.now_s))
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(slow.find, ISSUER.token("rsa-2"))
        assert asked.wait(30)
        early = [pool.submit(slow.find, ISSUER.token(f"ec-{i}")) for i in range(4)]
        issuer.now_s += PATIENCE_S
        with pytest.raises(UnavailableError):
            slow.find(ISSUER.token("rsa-3"))
        release.set()
        refused = [type(each.exception(30)) for each in (first, *early)]

    assert set(refused) <= {UnauthorizedError, UnavailableError}
    assert issuer.num_asked == 1
