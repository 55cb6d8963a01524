"""Tokens of an OpenID Connect issuer over HTTP: beside keys, counted, written down, and never in
anybody's way.
"""

import threading
from collections.abc import Iterator

import pytest
from sqlalchemy.orm import Session, sessionmaker

from service.access.keys import Scope
from service.base.errors import UnavailableError
from service.usecases.access.key_server import fetch_keys
from tests.e2e.access.conftest import ask, make_key, serving, until_known
from tests.issuers import AUDIENCE, Issuer, serving_issuer
from tests.waiting import eventually


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """Return an issuer that answers."""
    with serving_issuer() as issuer:
        yield issuer


@pytest.fixture
def trusting(database_url: str, redis_url: str, issuer: Issuer) -> Iterator[str]:
    """Return the address of a server that trusts this issuer, with a limit for each of its
    users.
    """
    environment = {"DATABASE_URL": database_url, "REDIS_URL": redis_url, "HEADROOM_ACCESS": "keys"}
    environment |= {
        "HEADROOM_OIDC_ISSUER": issuer.url,
        "HEADROOM_OIDC_AUDIENCE": AUDIENCE,
        "HEADROOM_OIDC_RATE": "4/hour",
    }
    environment |= {
        "HEADROOM_OIDC_SCOPES_CLAIM": "groups",
        "HEADROOM_OIDC_SCOPES": "gpu-users=plan,gpu-admins=admin",
    }
    with serving(environment) as address:
        yield address


def test_a_token_opens_what_its_groups_may(
    trusting: str, issuer: Issuer, sessions: sessionmaker[Session]
) -> None:
    """A user may plan and not change, an admin's change has his name, a key works beside them, a
    wrong token says why.
    """
    key = make_key(sessions, Scope.ADMIN)
    until_known(trusting, key)
    user, admin = (
        issuer.token(groups=["gpu-users"]),
        issuer.token(sub="u-2", preferred_username="ada", groups=["gpu-admins"]),
    )
    refused = ask(trusting, "DELETE", "/v1/clusters/none", user)
    stranger = ask(trusting, "GET", "/v1/models", issuer.token(sub="u-3", groups=["others"]))
    expired = ask(trusting, "GET", "/v1/models", issuer.token(exp=1_000_000_000))

    assert ask(trusting, "GET", "/v1/models?limit=1", user).status_code == 200
    assert (refused.status_code, "the token has 'read', 'plan'" in refused.json()["detail"]) == (
        403,
        True,
    )
    assert (stranger.status_code, "the token has none" in stranger.json()["detail"]) == (403, True)
    assert (expired.status_code, expired.json()["type"]) == (401, "unauthorized")
    assert expired.json()["detail"] == "the token is not accepted: it has expired"
    assert ask(trusting, "DELETE", "/v1/clusters/none", admin).status_code == 404
    eventually(lambda: len(ask(trusting, "GET", "/v1/audit", key).json()["items"]) == 2)
    items = ask(trusting, "GET", "/v1/audit", key).json()["items"]
    assert [(item["principal"], item["key_id"], item["status"]) for item in items] == [
        ("oidc:ada (u-2)", None, 404),
        ("oidc:u-1", None, 403),
    ]


def test_each_user_has_a_limit_of_his_own(trusting: str, issuer: Issuer) -> None:
    """It counts over all of his tokens, and nobody else's."""
    tokens = [issuer.token(groups=["gpu-users"], jti=str(number)) for number in range(5)]
    statuses = [ask(trusting, "GET", "/v1/gpus?limit=1", token).status_code for token in tokens]

    assert statuses == [200, 200, 200, 200, 429]
    assert (
        ask(
            trusting, "GET", "/v1/gpus?limit=1", issuer.token(sub="u-2", groups=["gpu-users"])
        ).status_code
        == 200
    )


def test_an_issuer_that_hangs_holds_up_nobody_else(
    trusting: str, issuer: Issuer, sessions: sessionmaker[Session]
) -> None:
    """While tokens of unknown keys wait for it, keys, known tokens and probes are answered; then
    they are refused.
    """
    key = make_key(sessions, Scope.READ)
    until_known(trusting, key)
    known = issuer.token(groups=["gpu-users"])
    assert ask(trusting, "GET", "/v1/gpus?limit=1", known).status_code == 200
    issuer.hold.clear()
    statuses: list[int] = []
    unknown = issuer.token("rsa-2", groups=["gpu-users"])
    waiting = [
        threading.Thread(
            target=lambda: statuses.append(ask(trusting, "GET", "/v1/gpus", unknown).status_code)
        )
        for _ in range(8)
    ]
    for thread in waiting:
        thread.start()
    others = [
        ask(trusting, "GET", path, text).status_code
        for path in ("/v1/gpus?limit=1", "/healthz")
        for text in (key, known)
    ]
    for thread in waiting:
        thread.join()

    assert others == [200, 200, 200, 200]
    assert statuses == [401] * len(waiting)


def test_no_issuer_at_the_start_is_no_reason_not_to_start(database_url: str) -> None:
    """A token is told to come again, as long as its issuer was never there."""
    with serving_issuer() as gone:
        token = gone.token()
    environment = {
        "DATABASE_URL": database_url,
        "HEADROOM_ACCESS": "keys",
        "HEADROOM_OIDC_AUDIENCE": AUDIENCE,
    }
    with serving(environment | {"HEADROOM_OIDC_ISSUER": gone.url}) as address:
        answer = ask(address, "GET", "/v1/gpus", token)

        assert (answer.status_code, answer.json()["type"], answer.headers["retry-after"]) == (
            503,
            "unavailable",
            "1",
        )


def test_keys_are_read_by_the_discovery_document(issuer: Issuer) -> None:
    """From where it says, if it is the issuer's own, and its keys are nobody else's."""
    wrong: tuple[tuple[dict[str, object], str], ...] = (
        ({"issuer": "https://other.test"}, "of the issuer 'https://other.test'"),
        ({"jwks_uri": "http://keys.test/keys"}, "must be an https:// URL"),
        ({"jwks_uri": f"{issuer.url}/nothing"}, "answers with 404"),
    )

    assert set(fetch_keys(issuer.url).by_id) == {"rsa-1"}
    for discovery, told in wrong:
        issuer.discovery = discovery
        with pytest.raises(UnavailableError) as caught:
            fetch_keys(issuer.url)

        assert told in caught.value.detail
